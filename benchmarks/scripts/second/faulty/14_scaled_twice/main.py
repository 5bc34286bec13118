from inputs import get
from network import convnet

train, val, test = get("train"), get("val"), get("test")
net = convnet()
net.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(train, validation_data=val, epochs=3)
print("test", net.evaluate(test, verbose=0))
