"""The training of mnist_fit.py as a loop over a compiled step: mnist_loop.py [DATA]. Several processes share each batch:
freight launch -n 2 mnist_loop.py."""
import time

import numpy as np
from mnist_fit import network, options, read

import freight as fr
from freight import distributed, optim

BATCH = 64

net = network()
optimizer = optim.SGD(net, lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4, decay_norm_bias=False)


def loss_of(net, x, y):
    return fr.cross_entropy(net(fr.astype(x, fr.float32) / 255), y)


@fr.jit  # traced once: forward, gradients and update are one plan, which is replayed
def step(x, y):
    loss, grads = fr.value_and_grad(loss_of)(net, x, y)
    optimizer.update(grads)
    return loss


if __name__ == "__main__":
    given = options()
    train, test = read(given.data, given.samples)
    images, classes = map(np.asarray, train)
    steps = len(images) // BATCH
    rank, world = distributed.get_rank(), distributed.get_world_size()
    rate = optim.one_cycle(0.1, given.epochs * steps)
    for epoch in range(given.epochs):
        began = time.monotonic()
        order, loss = np.random.default_rng(epoch).permutation(len(images)), 0.0
        for i in range(steps):
            rows = order[i * BATCH : (i + 1) * BATCH][rank::world]
            optimizer.lr = rate(epoch * steps + i)
            loss += step(fr.asarray(images[rows]), fr.asarray(classes[rows])).item()
        if rank == 0:
            print(f"epoch {epoch + 1}  loss {loss / steps:.4f}  {steps * BATCH / (time.monotonic() - began):,.0f} samples/s")
    if rank == 0:
        print(net.evaluate(*test))
