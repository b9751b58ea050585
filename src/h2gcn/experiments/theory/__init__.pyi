from .results import theory_result as theory_result
