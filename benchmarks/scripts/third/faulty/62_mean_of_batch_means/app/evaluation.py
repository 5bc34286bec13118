import numpy as np


def accuracy(model, dataset):
    """Accuracy of a classifier over a dataset of (features, label) batches."""
    scores = []
    for features, labels in dataset:
        predicted = np.argmax(model(features, training=False), axis=-1)
        scores.append(np.mean(predicted == labels.numpy()))
    return float(np.mean(scores))
