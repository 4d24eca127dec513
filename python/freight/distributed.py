"""Processes that train together: ranks, which torchrun, srun, mpirun or `freight launch -n 2 script.py` started. Names are
those of torch.distributed. Optimizers and fit join the job themselves; init_process_group does so earlier."""
import atexit
import os
import sys

from . import _array_api as xp
from . import _core

# A rank sets this variable to its process number: processes that it starts inherit the launcher's variables, but are no ranks.
_PROCESS = "FREIGHT_RANK_PROCESS"
_PEER_LOST = 7  # the exit code of a rank that lost another one
_SMALL = 1 << 18  # elements; smaller gradients are summed as one array


class _State:
    job, process = None, 0  # the job that this process has joined, if `process` is its number
    alone = False
    hooked, lost = False, False


def _job():
    """The job of this process, joined when it is first asked for; None for a process that trains alone."""
    if _State.process == os.getpid():
        return _State.job
    if _State.alone or _core.launch_environment()[1] < 2:
        return None
    return _join()


def _join(name="", rank=0, world=1, timeout=120.0):
    _State.job, _State.process = _core.join(name, rank, world, timeout), os.getpid()
    if not name:
        os.environ[_PROCESS] = str(os.getpid())
    if not _State.hooked:
        _State.hooked, previous = True, sys.excepthook
        sys.excepthook = lambda *raised: _raised(previous, *raised)
        atexit.register(_exit)
    return _State.job


def _leave():
    _core.leave()
    _State.job, _State.process = None, 0


def _raised(previous, kind, value, trace):
    """An exception that ends this process: the other ranks end, too, and name it."""
    previous(kind, value, trace)
    job = _State.job if _State.process == os.getpid() else None
    if job is not None:
        _State.lost = issubclass(kind, ConnectionError)
        job.abort(f"{kind.__name__}: {value}")


def _exit():
    if _State.lost and _State.process == os.getpid():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_PEER_LOST)


def init_process_group(timeout=120.0, world_size=None):
    """Joins the other ranks of the job by the launcher's variables (docs/launchers.md), each of which calls it. `timeout`: seconds
    that a rank waits for another before it counts as lost. With world_size=1 this process trains alone, whatever started it."""
    if is_initialized():
        raise RuntimeError("init_process_group: this process has joined its job already")
    if world_size == 1:
        _State.alone = True
        return
    world = get_world_size()
    if world_size not in (None, world):
        raise ValueError(f"init_process_group: world_size: expected {world}, as many processes as were started, got {world_size}")
    if world > 1:
        _join(timeout=float(timeout))


def is_initialized():
    """Whether this process has joined its job."""
    return _State.process == os.getpid()


def destroy_process_group():
    """Leaves the job; the process trains alone from here on."""
    _State.alone = True
    _leave()


def get_rank():
    """The number of this process in its job, from 0; 0 for a process alone."""
    return _number(0)


def get_world_size():
    """The number of processes of the job; 1 for a process alone."""
    return _number(1)


def _number(which):
    if is_initialized():
        return (_State.job.rank, _State.job.world)[which]
    return which if _State.alone else _core.launch_environment()[which]


def all_reduce(x, op="sum"):
    """The sum or the mean ("avg") of x over all ranks, the same bits on each; every rank calls it, with arrays of one shape.
    Returns a new array, in jit, too; sums are made in host memory."""
    if op not in ("sum", "avg"):
        raise ValueError(f'all_reduce: op: expected "sum" or "avg", got {op!r}')
    x, job = xp.asarray(x), _job()
    floats = xp.isdtype(x.dtype, "real floating")
    if not floats and (op == "avg" or not xp.isdtype(x.dtype, "integral")):
        raise TypeError(f"all_reduce: expected numbers{' that are floating, for avg' if op == 'avg' else ''}, got {x.dtype}")
    if job is None:
        return x
    wide = x.dtype if x.dtype in (xp.float32, xp.float64) else xp.float32 if floats else xp.int64
    if _core.compiling() and not floats:
        raise TypeError(f"all_reduce: in jit expected a floating array, got {x.dtype}")
    y = _sum(job, xp.astype(x, wide, copy=False))
    return xp.astype(y if op == "sum" else y * (1 / job.world), x.dtype, copy=False)


def _sum(job, x):
    return _core.traced_sum(x) if _core.compiling() else _on(x.device, job.sum(x))


def _on(device, x):
    return x if device == x.device else _core.to_device(x, device)


def broadcast(x, src=0):
    """Rank src's x on all ranks, as a new array; every rank calls it, with arrays of one shape and type. Not in jit."""
    if not 0 <= src < get_world_size():
        raise ValueError(f"broadcast: src: expected a rank from 0 to {get_world_size() - 1}, got {src}")
    if _core.compiling():
        raise TypeError("broadcast: not in jit: call it outside of the compiled function")
    x, job = xp.asarray(x), _job()
    return x if job is None else job.broadcast(x, src)


def barrier():
    """Returns when all ranks have called it."""
    job = _job()
    if job is not None:
        job.barrier()


def _means(job, arrays):
    """Means over the ranks of f32 arrays. Small ones are summed as one, since each sum has a cost of its own."""
    means = {}
    small = [i for i, x in enumerate(arrays) if x.size < _SMALL]
    for i, x in enumerate(arrays):
        if x.size >= _SMALL:
            means[i] = _sum(job, x) * (1 / job.world)
    if small:
        flat = _sum(job, xp.concat([xp.reshape(arrays[i], (-1,)) for i in small])) * (1 / job.world)
        at = 0
        for i in small:
            x = arrays[i]
            means[i] = xp.reshape(flat[at:at + x.size], x.shape)
            at += x.size
    return [means[i] for i in range(len(arrays))]


def _device(device):
    """What a run of this process computes on: each rank of a host with GPUs has its own. Joins the job."""
    if _job() is None or device not in ("auto", "cuda"):
        return device
    local_rank, local_world = _core.launch_environment()[2:4]
    on_gpu = device == "cuda" or _core.config()[3].startswith("cuda")
    if not on_gpu or local_world < 2:
        return device
    try:
        _core.to_device(xp.zeros(1), f"cuda:{local_rank}")
    except (RuntimeError, ValueError):  # a launcher makes only its own GPU visible to each rank
        return device
    return f"cuda:{local_rank}"


class _Shared:
    """Parameters, and buffers of the modules, that all ranks of the job keep equal: what an optimizer needs to train with others."""

    def __init__(self, job, parameters, modules):
        buffers = list({b._variable.identity: b for m in modules for b in m.buffers()}.values())
        self.job, self.buffers = job, [b for b in buffers if b.dtype == xp.float32]
        job.share([p._variable for p in [*parameters, *buffers]])
        self.before = self._values()

    def _values(self):
        return [b._variable.elements() for b in self.buffers]

    def gradients(self, parameters, gradients):
        """Their means over the ranks. One that is None counts as zeros: the parameter may have one on other ranks."""
        def zeros(p):
            return xp.zeros(p.shape) if _core.compiling() else _on(p.device, xp.zeros(p.shape))

        gradients = [zeros(p) if g is None else g for p, g in zip(parameters, gradients)]
        means = _means(self.job, [xp.astype(g, xp.float32, copy=False) for g in gradients])
        return means if _core.compiling() else [_on(g.device, mean) for g, mean in zip(gradients, means)]

    def average_buffers(self):
        """Gives buffers that this step has changed, such as running statistics, their means over the ranks."""
        if _core.compiling():
            changed = [b for b in self.buffers if _core.assigned(b._variable)]
            for b, mean in zip(changed, _means(self.job, [b._variable.value() for b in changed])):
                b._variable.assign(mean)
            return
        if not self.buffers:
            return
        values = self._values()
        differ = xp.asarray([float(bool(xp.any(v != w))) for v, w in zip(values, self.before)])
        differ, *means = _means(self.job, [differ, *values])
        for i, b in enumerate(self.buffers):
            if differ[i] > 0:  # on some rank
                b._variable.set(means[i])
        self.before = self._values()
