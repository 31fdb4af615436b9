"""Filters on data: what a filter may ask of an event's JSON data, and how that is evaluated.

To a predicate, what stands at a path of the data is a few more attributes of the event, its facts. Each has a name that
no attribute can have: the kind of fact, a colon, the path.

| name | text |
|---|---|
| `kind:order.total` | `string`, `number`, `true`, `false`, `null`, `object` or `array`; missing for nothing |
| `string:order.total` | the string that stands there; missing where something else does |
| `number:order.total` | the number that stands there; missing where something else does |
| `kind:` | there where the event has JSON data at all |

So comparing, filing and planning treat data as they treat attributes. `facts` finds them in Python, `columns` in Spark.
"""
