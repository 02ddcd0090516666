"""Oracles: a slow second model, closed forms, and statistical checks that Silvan must meet."""
