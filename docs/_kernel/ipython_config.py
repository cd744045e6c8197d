"""How IPython runs the tutorials: no history, no talk about transport, and pictures that stay sharp."""

c = get_config()  # noqa: F821 - IPython gives it
c.HistoryManager.enabled = False
c.IPKernelApp.log_level = "ERROR"
c.InlineBackend.figure_formats = {"svg"}
c.InlineBackend.rc = {"svg.hashsalt": "unmix", "font.size": 10}
