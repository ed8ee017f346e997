"""What a new user meets: thirty-two ordinary files, each trained by the first command and judged by its own future."""
