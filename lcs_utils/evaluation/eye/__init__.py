"""Pictures judged by eye, blind, and the counter beside them (App. E.2)."""
