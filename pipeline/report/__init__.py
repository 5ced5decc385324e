"""The report: one HTML page that says what a window cost, needs nothing beside itself, and runs nobody's code.

`data` asks the views, `tables` gives numbers their marks, `charts` has Vega draw, `page` puts them together.
"""
