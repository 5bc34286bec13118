"""What a model is given: task, inputs, splits, augmentation."""
