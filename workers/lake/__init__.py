"""Lake of inputs: where checkpoints and labels are, read patiently, verified, bounded."""
