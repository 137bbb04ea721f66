"""Sources of a model's night: the inputs of every audit, whatever computed them."""
