"""Train, evaluate and save one forecasting model: `python train.py attention=probsparse data=etth1`."""

import sys

if __name__ == "__main__":
    try:
        from forecast.training.command_line import main

        main()
    except KeyboardInterrupt:  # before `main` handles signals
        print("stopped: interrupted while starting: nothing was read or written", file=sys.stderr)
        sys.exit(130)
