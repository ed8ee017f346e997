"""`python -m forecast.training`: what `python train.py` does, from anywhere."""

from forecast.training.command_line import main

if __name__ == "__main__":
    main()
