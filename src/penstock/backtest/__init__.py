"""Backtests: what would a Trigger have received? Its filter over past events, beside that of the Trigger as it is now.

`backtest()` in `run` is the whole of it, for the command and the console. The events are read and matched by
a Spark batch with the router's own `matching()`, so what it says is what the router would do.
"""
