"""Made once, with librosa 0.11: mel features and spectrograms of a sound that the tests make again."""

from pathlib import Path

import librosa
import numpy as np


def chirp(rate: int, seconds: float) -> np.ndarray:
    time = np.arange(int(rate * seconds)) / rate
    noise = np.random.default_rng(0).normal(size=len(time))
    return (0.4 * np.sin(2 * np.pi * (200 + 1500 * time) * time) + 0.02 * noise).astype(np.float32)


sound = chirp(16000, 0.7)
found = {
    "mel": librosa.feature.melspectrogram(y=sound, sr=16000, n_fft=1024, hop_length=256, n_mels=64),
    "narrow": librosa.feature.melspectrogram(
        y=sound, sr=16000, n_fft=512, hop_length=200, n_mels=40, fmin=80, fmax=7000
    ),
    "power": np.abs(librosa.stft(sound, n_fft=256, hop_length=256)) ** 2,
}
found["db"] = librosa.power_to_db(found["mel"])
np.savez_compressed(Path(__file__).with_name("librosa.npz"), **found)
