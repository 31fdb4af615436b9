"""Commands that have events delivered once more, and show what was given up."""
