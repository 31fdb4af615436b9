"""Accounts for every accepted event, route by route: delivered, dead-lettered, dropped, waiting or lost.

`verify()` in `run` is the whole of it. What a route was to get is found by its filter, evaluated here and not asked of
the router; what became of it by the records of attempts; what has still to come by the cursors of the dispatcher. So
it shows as well what the router or the dispatcher left out and did not notice.
"""
