"""Disturb the program in random trials, and count the trials in which it kept its promises ("held").

interruption
    A training or a sweep receives SIGKILL, SIGTERM, SIGINT or SIGUSR1 at one to three random moments, and the same
    command finishes it. Held: weights, scores and errors equal the uninterrupted run byte for byte. Otherwise: lost.
corruption
    One file of a finished run, an unfinished run or an export is damaged (bits, length, numbers), and a command reads
    it. Held: one line and exit code 2, or exit code 0 with the result of the undamaged file. Silent: another result
    with exit code 0 and no message.
disk
    The disk is full, read-only or fails at one operation. Held: exit code 4 and one line, no half-written file, and
    the same command finishes once there is space.
not_finite
    Tables, weights, gradients or optimizer states get NaN, infinity or an enormous number. Held: exit code 2 or 3 and
    one line, and only finite numbers are written.
"""
