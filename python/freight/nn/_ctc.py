"""Connectionist temporal classification (Graves et al. 2006)."""
from .. import _functions, xp
from .._parameter import recording

_NEVER = -1e30  # the logarithm of probability 0, finite so that gradients are


def _padded(targets, lengths):
    """Targets one after the other as rows (N, S); their lengths must be known."""
    if getattr(lengths, "ndim", int(isinstance(lengths, (list, tuple)))) != 1:
        raise ValueError("ctc_loss: expected log_probs (T, N, C) and targets (N, S), or all targets in one array and their lengths as (N), got "
                         f"target_lengths {lengths!r}")
    lengths = [int(n) for n in lengths]
    if sum(lengths) != targets.shape[0]:
        raise ValueError(f"ctc_loss: target_lengths: expected a sum of {targets.shape[0]}, as there are targets, got {sum(lengths)}")
    last, starts = max(targets.shape[0] - 1, 0), [sum(lengths[:i]) for i in range(len(lengths))]
    places = [[min(start + k, last) for k in range(max(lengths, default=0))] for start in starts]
    return xp.reshape(xp.take(targets, xp.asarray([p for row in places for p in row], dtype=xp.int64)), (len(lengths), -1))


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """-ln of the probability of the targets (N, S), or (sum of target_lengths), under log_probs (T, N, C), summed over all alignments
    with blanks. The lengths are (N). Without N everything is of one sample. With "mean" each loss is divided by the length of its target. Samples that are too short for their targets have
    infinite losses; with zero_infinity these are 0."""
    if log_probs.ndim == 2:
        lengths = [xp.reshape(xp.asarray(n), (1,)) for n in (input_lengths, target_lengths)]
        loss = ctc_loss(xp.expand_dims(log_probs, axis=1), xp.reshape(targets, (1, -1)), *lengths, blank, reduction, zero_infinity)
        return loss[0] if reduction == "none" else loss
    if targets.ndim == 1:
        targets = _padded(targets, target_lengths)
    if log_probs.ndim != 3 or targets.ndim != 2:
        raise ValueError(f"ctc_loss: expected log_probs (T, N, C) and targets (N, S), got {log_probs.shape} and {targets.shape}")
    steps, count, classes = log_probs.shape
    if targets.shape[0] != count:
        raise ValueError(f"ctc_loss: log_probs are of {count} samples, targets of {targets.shape[0]}: expected as many")
    input_lengths, target_lengths = (xp.astype(xp.asarray(n), xp.int64) for n in (input_lengths, target_lengths))
    if not recording():  # values are known
        for name, lengths, most in (("input_lengths", input_lengths, steps), ("target_lengths", target_lengths, targets.shape[1])):
            if count and int(xp.max(lengths)) > most:
                raise ValueError(f"ctc_loss: {name}: expected at most {most}, got {int(xp.max(lengths))}")
    length, places = targets.shape[1], 2 * targets.shape[1] + 1
    # Blanks around every class: (N, 2 S + 1).
    targets = xp.astype(targets, xp.int64)
    blanks = xp.full((count, length), blank, dtype=xp.int64)
    extended = xp.concat([xp.reshape(xp.stack([blanks, targets], axis=2), (count, 2 * length)), blanks[:, :1] if length else
                          xp.full((count, 1), blank, dtype=xp.int64)], axis=1)
    # Two places ahead is possible past a blank between different classes.
    skips = (extended[:, 2:] != blank) & (extended[:, 2:] != extended[:, :-2])
    emitted = _functions.gather_elements(log_probs, xp.broadcast_to(xp.expand_dims(extended, axis=0), (steps, count, places)), 2)
    ahead = xp.full((count, 2), _NEVER)
    alpha = xp.where(xp.arange(places) < 2, emitted[0], _NEVER)
    for t in range(1, steps):
        one = xp.concat([ahead[:, :1], alpha[:, :-1]], axis=1)
        two = xp.concat([ahead, xp.where(skips, alpha[:, :-2], _NEVER)], axis=1)[:, :places]
        largest = _functions.stop_gradient(xp.maximum(xp.maximum(alpha, one), two))
        sums = xp.log(xp.exp(alpha - largest) + xp.exp(one - largest) + xp.exp(two - largest)) + largest
        alpha = xp.where(xp.expand_dims(input_lengths > t, axis=1), sums + emitted[t], alpha)
    # The last class, or the blank behind it.
    last = xp.expand_dims(2 * target_lengths, axis=1)
    place = xp.expand_dims(xp.arange(places), axis=0)
    ends = (place == last) | (place == last - 1)
    loss = -_functions.logsumexp(xp.where(ends, alpha, _NEVER), 1)
    impossible = loss > -_NEVER / 2
    loss = xp.where(impossible, 0.0 if zero_infinity else xp.inf, loss)
    if reduction == "mean":
        return xp.mean(loss / xp.astype(xp.maximum(target_lengths, 1), xp.float32))
    if reduction not in ("none", "sum"):
        raise ValueError(f"ctc_loss: reduction: expected \"none\", \"mean\" or \"sum\", got {reduction!r}")
    return loss if reduction == "none" else xp.sum(loss)
