"""Who sends, and may they: the one place where the ingress decides about senders.

A target without `access` in its record is open, and costs nothing here. Where it has one, each `Recogniser` is asked in
turn who sends (`door.py`), and then the rules of the target whether they may (`resources/eventpolicy/rules.py`).
"""
