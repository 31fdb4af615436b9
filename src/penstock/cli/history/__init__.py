"""Commands that ask the history: `penstock sql`, `events`, `trace`, `backtest`, `verify`."""
