"""`python -m forecast.training`: the same as `python train.py`, from any folder."""

from forecast.training.command_line import main

if __name__ == "__main__":
    main()
