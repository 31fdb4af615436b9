"""The pages of this room."""

from __future__ import annotations

from penstock.console.events import deadletters_page, event_page, playground_page, search_page, tail_page

ROUTES = [
    *search_page.ROUTES,
    *tail_page.ROUTES,
    *event_page.ROUTES,
    *deadletters_page.ROUTES,
    *playground_page.ROUTES,
]
