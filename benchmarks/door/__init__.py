"""What a new user meets: thirty-three ordinary files, each trained by the first command, judged by its own future."""
