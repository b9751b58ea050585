from .program import app as app, entry_point as entry_point, main as main
