"""`penstock ingress`, `penstock control`, …: each role of penstock as a process of its own."""
