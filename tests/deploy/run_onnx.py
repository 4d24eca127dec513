"""Checks ONNX files and runs them: run_onnx.py MODEL.onnx INPUT.npy OUTPUT.npy [MODEL INPUT OUTPUT ...]

Every file goes through onnx.checker with shape inference, must have IR version 8 and opset 17 (trees ai.onnx.ml 3 besides), and is run by ONNX
Runtime.
"""
import sys

import numpy
import onnx
import onnxruntime

sessions = {}
for model, source, target in zip(*[iter(sys.argv[1:])] * 3):
    if model not in sessions:
        proto = onnx.load(model)
        onnx.checker.check_model(proto, full_check=True)
        assert proto.ir_version == 8, proto.ir_version
        assert [(o.domain, o.version) for o in proto.opset_import] == [("", 17)] + [("ai.onnx.ml", 3)] * any(
            n.domain == "ai.onnx.ml" for n in proto.graph.node), proto.opset_import
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 2
        options.log_severity_level = 3
        sessions = {model: onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])}
    session = sessions[model]
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    result = session.run([y.name], {x.name: numpy.load(source)})[0]
    assert len(y.shape) == result.ndim, (y.shape, result.shape)
    numpy.save(target, result)
