"""Recovery: checkpoints that are verified, repaired, rewound, saved and restored."""
