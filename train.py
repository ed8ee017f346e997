"""Train, evaluate and save one forecasting model: `python train.py attention=probsparse data=etth1`."""

from forecast.training import main

if __name__ == "__main__":
    main()
