"""The console: pages that show a running penstock in a browser, and change it by the functions of `operations`."""
