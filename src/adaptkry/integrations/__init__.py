"""AdaptKry for other libraries: a scikit-learn estimator, a PyG transform and a PyG layer."""
