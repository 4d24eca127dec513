"""Sentiment of film reviews by an LSTM, in a class with its own forward: text_lstm.py DIRECTORY, the folder of
`freight data get sst2`."""
import argparse
import collections
import csv
import gzip
import pathlib
import re

import numpy as np

import freight as fr
from freight import callbacks, nn

LENGTH = 40  # tokens per sentence; longer ones are cut


def read(path):
    """Sentences and labels of a file of tab-separated columns with a header."""
    open_text = gzip.open if path.suffix == ".gz" else open
    with open_text(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    return [re.findall(r"[\w']+|[^\w\s]", text.lower()) for text, _ in rows], np.asarray([int(label) for _, label in rows])


def vocabulary_of(sentences, most=20000):
    """Numbers of the most frequent words from 2; 0 is padding, 1 any other word."""
    counts = collections.Counter(word for words in sentences for word in words)
    return {word: i + 2 for i, (word, _) in enumerate(counts.most_common(most))}


def encoded(sentences, vocabulary):
    tokens = np.zeros((len(sentences), LENGTH), "i4")  # (N, T)
    for row, words in zip(tokens, sentences):
        row[:len(words[:LENGTH])] = [vocabulary.get(word, 1) for word in words[:LENGTH]]
    return tokens


class Classifier(nn.Module):
    def __init__(self, words, width=96):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.lstm = nn.LSTM(width, width)
        self.dropout = nn.Dropout(0.4)
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        x = self.dropout(self.embedding(tokens))  # (N, T, C)
        lengths = fr.sum(tokens != 0, axis=1)
        _, (h, _) = self.lstm(x, lengths=lengths)  # the state after the last word, not after the padding
        return self.head(self.dropout(h[-1]))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("directory", type=pathlib.Path)
    arguments.add_argument("--epochs", type=int, default=3)
    arguments.add_argument("--samples", type=int, help="train on the first so many (default: all)")
    options = arguments.parse_args()

    sentences, labels = read(options.directory / "train.tsv.gz")
    sentences, labels = sentences[:options.samples], labels[:options.samples]
    vocabulary = vocabulary_of(sentences)
    dev, dev_labels = read(options.directory / "dev.tsv")
    x, x_dev = encoded(sentences, vocabulary), encoded(dev, vocabulary)

    net = Classifier(len(vocabulary) + 2)
    print(net.summary())
    history = net.fit(x, labels, validation_data=(x_dev, dev_labels), epochs=options.epochs, batch_size=64, optimizer="adamw", lr=2e-3,
                      weight_decay=0.01, clip_grad_norm=1.0, lr_scheduler="cosine", metric="accuracy", callbacks=[callbacks.EarlyStopping(patience=2)])
    print("dev accuracy by epoch:", [round(a, 3) for a in history.history["val_accuracy"]])

    net.save("sst2.safetensors")
    again = fr.load("sst2.safetensors")  # its forward was traced: the class is not needed
    for sentence in ("a gripping , beautifully acted film", "dull , predictable and far too long"):
        probability = fr.softmax(again.predict(encoded([sentence.split()], vocabulary)))[0, 1].item()
        print(f"{probability:.2f}  {sentence}")
