"""Where a model's night comes from: what every audit is made of, whatever computed it."""
