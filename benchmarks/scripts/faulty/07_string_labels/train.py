import keras
from input_pipeline import load_split

train_ds = load_split("train", batch_size=24, shuffle=True)
val_ds = load_split("val", batch_size=24)

model = keras.Sequential([
    keras.Input((48, 48, 3)),
    keras.layers.Conv2D(16, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Conv2D(32, 3, activation="relu"),
    keras.layers.MaxPooling2D(),
    keras.layers.Flatten(),
    keras.layers.Dense(3, activation="softmax"),
])
model.compile(optimizer="rmsprop", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, epochs=6, validation_data=val_ds)
