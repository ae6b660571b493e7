"""How results, explanations, reports and kernels show themselves in notebooks, and progress bars there."""
