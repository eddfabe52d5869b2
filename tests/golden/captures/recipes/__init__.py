"""One module per capture; each has a `build()` that returns its `Capture`."""
