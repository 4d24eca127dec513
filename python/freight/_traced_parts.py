"""Divides the traced forward of a network into the programs of its parts, so that parts may be called and replaced. What cannot be
divided stays in the program around it, and a change of such a part is refused. Only _from_torch.py uses this."""
from . import nn
from ._containers import ModuleDict, Wrapper, _Listed
from ._layer_kinds import AttentionLayer, RecurrentLayer


class Call:
    """One call of a part: its path, the names of its inputs and of its result, None where they are more than arrays, and the steps and
    calls inside. names: those of its forward's parameters. begin, end: the range of its steps among all."""

    def __init__(self, path, names=(), inputs=None):
        self.path, self.names, self.inputs, self.result, self.items = path, names, inputs, None, []
        self.begin = self.end = 0


class Trace:
    """The steps of one trace, in calls within calls. plain: what gives the name of a node's value at this point."""

    def __init__(self, plain):
        self.plain, self.root, self.open, self.called = plain, Call(""), [], set()

    def at(self, calls):
        """What follows was recorded inside of these calls."""
        same = 0
        while same < min(len(calls), len(self.open)) and self.open[same][0] is calls[same]:
            same += 1
        while len(self.open) > same:
            of_tracer, call = self.open.pop()
            call.result = self.plain(of_tracer.result)
        for of_tracer in calls[same:]:
            call = Call(of_tracer.path, of_tracer.names, self.plain(of_tracer.inputs))
            self._innermost().items.append(call)
            self.open.append((of_tracer, call))

    def add(self, step):
        self._innermost().items.append(step)

    def _innermost(self):
        return self.open[-1][1] if self.open else self.root


def _names(x):
    """The names of values among arguments."""
    from ._from_torch import Value

    if isinstance(x, Value):
        yield x
    elif isinstance(x, slice):
        yield from _names((x.start, x.stop, x.step))
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from _names(part)
    elif isinstance(x, dict):
        yield from _names(list(x.values()))


class _Outside(Exception):
    """A step of a part uses something that is not below the part."""


class Division:
    """Gives the network and its parts their programs. traces: by mode; containers: the paths of those whose class goes through its
    children as a list or a dict."""

    def __init__(self, root, traces, constants, containers):
        self.root, self.traces, self.constants, self.containers = root, traces, constants, containers
        self.states, self.uses, self.of_path = {}, {}, {}
        self.chosen = {}  # path -> {mode: program} of a part; {} of a Sequential, which needs none
        for mode, trace in traces.items():
            self.states[mode], self.uses[mode] = {}, {}
            end = self.index(trace.root, mode, 0)
            for name in _names(trace.root.result):
                self.uses[mode].setdefault(name, []).append(end)
        packed = any(step[2] == "pack_padded_sequence" for step in self.steps_of_all())
        for path in [] if packed else sorted(self.of_path, key=lambda path: -path.count(".")):
            programs = self.programs(path)
            if programs is not None:
                self.chosen[path] = programs
        self.give()

    # The steps.

    def index(self, call, mode, at):
        """Numbers the steps, takes those that read state out, and returns the number that follows."""
        call.begin = at
        for item in list(call.items):
            if isinstance(item, Call):
                self.of_path.setdefault(item.path, {}).setdefault(mode, []).append(item)
                for name in _names(item.inputs):  # they are read where the part begins
                    self.uses[mode].setdefault(name, []).append(at)
                at = self.index(item, mode, at)
            elif item[0] == "state":
                self.states[mode][item[1]] = item
                call.items.remove(item)
            else:
                for name in _names(item[3:5]):
                    self.uses[mode].setdefault(name, []).append(at)
                at += 1
        call.end = at
        return at

    def steps_of_all(self):
        waiting = [trace.root for trace in self.traces.values()]
        while waiting:
            call = waiting.pop()
            waiting += [item for item in call.items if isinstance(item, Call)]
            yield from (item for item in call.items if not isinstance(item, Call))

    def composed(self, call, prefix, mode):
        """The steps of a call, with paths from the prefix, and those that read state where they are first needed."""
        done, steps = set(), []

        def below(path):
            if prefix and not path.startswith(prefix + "."):
                raise _Outside
            return path[len(prefix) + 1:] if prefix else path

        def add(step):
            for name in _names(step[3:5]):
                add_state(name)
            steps.append(step if step[0] != "module" else (*step[:2], below(step[2]), *step[3:]))

        def add_state(name):
            state = self.states[mode].get(name)
            if state is not None and name not in done:
                done.add(name)
                steps.append(state if state[2] in self.constants else (*state[:2], below(state[2]), *state[3:]))

        def go(call):
            for item in call.items:
                if not isinstance(item, Call):
                    add(item)
                elif item.path in self.chosen:
                    add(("module", item.result, item.path, tuple(item.inputs), {}, f"{item.path} ({self.kind(item.path)})"))
                else:
                    go(item)

        go(call)
        for name in _names(call.result):
            add_state(name)
        return steps

    def kind(self, path):
        part = self.root.get_submodule(path)
        return getattr(part, "kind", type(part).__name__)

    # Parts with a program of their own.

    def programs(self, path):
        """The programs of a part by mode; None where it stays in that around it."""
        from ._from_torch import Traced, Value

        part, found = self.root.get_submodule(path), {}
        for mode, calls in self.of_path[path].items():
            for call in calls:
                if call.inputs is None or not isinstance(call.result, Value) or not self.is_closed(call, mode):
                    return None
                if isinstance(part, nn.Sequential):
                    if not self.is_chain(call, part):
                        return None
                    continue
                if not isinstance(part, Traced):
                    return None
                try:
                    program = self.program(call, path, mode)
                except _Outside:
                    return None
                if mode not in found:
                    found[mode] = program
                elif [step[:5] for step in program[1]] != [step[:5] for step in found[mode][1]] or program[2] != found[mode][2]:
                    return None
        return found

    def is_closed(self, call, mode):
        """Whether the call reads its inputs alone, and of what it computes only the result is read elsewhere."""
        made, read = set(), set()
        waiting = [call]
        while waiting:
            for item in waiting.pop().items:
                if isinstance(item, Call):
                    waiting.append(item)
                else:
                    made.add(item[1])
                    read.update(_names(item[3:5]))
        outside = {name for name in made if any(not call.begin <= at < call.end for at in self.uses[mode].get(name, ()))}
        return read - made - set(self.states[mode]) <= set(call.inputs) and outside <= {call.result} and call.result in made

    def is_chain(self, call, part):
        """Whether the call hands its input from one part to the next."""
        value, layers = call.inputs[0] if len(call.inputs) == 1 else None, list(part)
        for item in call.items:
            if not isinstance(item, Call) and item[2] == "contiguous" and not layers and len(call.items) == 1:
                value = item[1]  # no layers at all
                continue
            kind, name, path, inputs = ("module", item.result, item.path, item.inputs) if isinstance(item, Call) else item[:4]
            if (kind != "module" or not layers or list(inputs or ()) != [value] or self.root.get_submodule(path) is not layers[0]
                    or isinstance(item, Call) and path not in self.chosen
                    or isinstance(layers[0], (Wrapper, RecurrentLayer, AttentionLayer, nn.RNN))):
                return False
            layers, value = layers[1:], name
        return not layers and value == call.result

    def program(self, call, path, mode):
        from ._from_torch import Value, replaced

        if len(call.names) < len(call.inputs):
            raise _Outside
        names = {old: Value(new) for old, new in zip(call.inputs, call.names)}
        steps = []
        for kind, name, target, arguments, keywords, place in self.composed(call, path, mode):
            arguments, keywords = replaced(names, arguments), replaced(names, keywords)
            names.setdefault(name, Value(f"v{len(names)}"))
            steps.append((kind, names[name], target, arguments, keywords, place))
        return list(call.names[:len(call.inputs)]), steps, replaced(names, call.result)

    # What the modules get.

    def give(self):
        owners = {"": self.root, **{path: self.root.get_submodule(path) for path, programs in self.chosen.items() if programs}}
        self.root.programs = {mode: (trace.inputs, self.composed(trace.root, "", mode), trace.root.result)
                              for mode, trace in self.traces.items()}
        for path, owner in owners.items():
            if path:
                owner.programs = self.chosen[path]
            steps = [step for _, steps, _ in owner.programs.values() for step in steps]
            owner.constants = {step[2]: self.constants[step[2]] for step in steps if step[0] == "state" and step[2] in self.constants}
            targets = {step[2] for step in steps if step[0] in ("module", "state") and step[2] not in owner.constants}
            needed = {".".join(target.split(".")[:n]) for target in targets for n in range(1, target.count(".") + 1)}
            self.guard(path, owner, needed | ({""} if path in self.containers else set()))
        for path in {path for trace in self.traces.values() for path in trace.called} - set(self.chosen):
            above = max((o for o in owners if not o or path.startswith(o + ".")), key=len)
            self.guard(above, owners[above], {path[len(above) + 1:] if above else path})

    def guard(self, path, owner, parts):
        """Has the owner refuse calls after these parts below it have changed."""
        from ._from_torch import Traced

        for below in parts:
            part = owner.get_submodule(below)
            if isinstance(part, (Traced, ModuleDict, _Listed)):
                whole = f"{path}.{below}".strip(".")
                is_list = not isinstance(part, Traced) or whole in self.containers
                owner.guards[below] = [self.kind(whole) if whole else owner.kind, list(part._modules) if is_list else None]
