"""Views of results, explanations, reports and kernels for notebooks, and progress bars there."""
