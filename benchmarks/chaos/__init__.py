"""Attack the program, seed by seed, and count what held.

interruption
    A training or a sweep gets SIGKILL, SIGTERM, SIGINT or SIGUSR1 at one to three random moments, and the same command
    finishes it. Held: weights, scores and errors have the bytes of the uninterrupted run. Else it is lost.
corruption
    One file of a finished run, an unfinished run or an export is damaged (bits, length, numbers), and a command reads
    it. Held: one line and exit code 2, or exit code 0 with what the undamaged one gives. Silent: another result, exit
    code 0, no word.
artefact
    A run folder or an exported file is made to attack its reader. Held: nothing of it is imported or executed, no file
    outside the command's own is written, no address is asked, no secret is read, and the command ends within 20 s and
    2 GiB without a traceback.
table
    A table is mutated, and predict or train reads it. Held: a finite forecast with exit code 0, or one line. Silent:
    a planted flaw changes values, and no line says so.
disk
    The disk is full, read-only or fails at one operation. Held: exit code 4 and one line, nothing half-written, and
    the same command finishes once there is space.
not_finite
    NaN, infinity or an enormous number is put in tables, weights, gradients or optimizer states. Held: exit code 2
    or 3 and one line, and nothing that is not finite is written.
"""
