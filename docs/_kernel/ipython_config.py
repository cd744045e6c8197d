"""How IPython runs the cells: no history, no messages about transport, and sharp figures without a background."""

c = get_config()  # noqa: F821 - IPython gives it
c.HistoryManager.enabled = False
c.InteractiveShellApp.matplotlib = "inline"
c.IPKernelApp.log_level = "ERROR"
c.InlineBackend.figure_formats = {"svg"}
c.InlineBackend.rc = {
    "svg.hashsalt": "unmix",
    "font.size": 10,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
}
