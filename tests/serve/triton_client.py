"""An unmodified tritonclient against a server with the models `digits` (FP32 or UINT8 (N,1,28,28)) and `text`.

usage: triton_client.py HOST:PORT. Exits 1 with a reason where something is wrong.
"""
import sys

import numpy as np
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

client = triton.InferenceServerClient(url=sys.argv[1])
assert client.is_server_live() and client.is_server_ready()
assert client.is_model_ready("digits") and client.is_model_ready("digits", "1") and not client.is_model_ready("none")
assert client.get_server_metadata()["name"] == "freight"
metadata = client.get_model_metadata("digits")
assert metadata["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 1, 28, 28]}], metadata
assert client.get_model_config("digits")["max_batch_size"] >= 1
assert [m["name"] for m in client.get_model_repository_index()] == ["digits", "text"]

pixels = np.random.default_rng(3).integers(0, 256, (5, 1, 28, 28), dtype=np.uint8)
answers = []
for values, kind in ((pixels, "UINT8"), ((pixels / np.float32(255)).astype(np.float32), "FP32")):
    for binary_in in (True, False):
        for binary_out in (True, False):
            tensor = triton.InferInput("input", list(values.shape), kind)
            tensor.set_data_from_numpy(values, binary_data=binary_in)
            output = triton.InferRequestedOutput("probabilities", binary_data=binary_out)
            result = client.infer("digits", [tensor], outputs=[output], request_id="r1")
            assert result.get_response()["id"] == "r1"
            answers.append(result.as_numpy("probabilities"))
tensor.set_data_from_numpy(values)
answers.append(client.infer("digits", [tensor]).as_numpy("probabilities"))  # all outputs, binary as the client asks
for a in answers:
    assert a.shape == (5, 10) and a.dtype == np.float32, (a.shape, a.dtype)
    assert np.allclose(a.sum(axis=1), 1, atol=1e-5)
    assert np.allclose(a, answers[0], atol=1e-5), np.abs(a - answers[0]).max()

# Compressed on the way there.
assert np.allclose(client.infer("digits", [tensor], request_compression_algorithm="gzip").as_numpy("probabilities"), answers[0], atol=1e-5)

for binary in (True, False):
    output = triton.InferRequestedOutput("probabilities", binary_data=binary, class_count=2)
    best = client.infer("digits", [tensor], outputs=[output]).as_numpy("probabilities")
    assert best.shape == (5, 2), best.shape
    first = best[0, 0].decode() if binary else str(best[0, 0], "utf8") if isinstance(best[0, 0], bytes) else best[0, 0]
    assert first.split(":")[1] == str(answers[0][0].argmax()), first

texts = np.array(["a joy", "the film is a bore", "é"], dtype=object)
for binary in (True, False):
    tensor = triton.InferInput("text", [3], "BYTES")
    tensor.set_data_from_numpy(texts, binary_data=binary)
    assert client.infer("text", [tensor]).as_numpy("probabilities").shape == (3, 2)
tokens = triton.InferInput("tokens", [2, 3], "INT32")
tokens.set_data_from_numpy(np.array([[2, 3, 0], [3, 2, 2]], dtype=np.int32))
assert client.infer("text", [tokens]).as_numpy("probabilities").shape == (2, 2)

try:
    wrong = triton.InferInput("input", [1, 3, 8, 8], "FP32")
    wrong.set_data_from_numpy(np.zeros((1, 3, 8, 8), np.float32))
    client.infer("digits", [wrong])
    raise SystemExit("a wrong shape was taken")
except InferenceServerException as e:
    assert "[1,3,8,8]" in e.message() and "[1,28,28]" in e.message(), e

# Several at once, by the client's own pool.
many = triton.InferenceServerClient(url=sys.argv[1], concurrency=8)
tensor = triton.InferInput("input", [5, 1, 28, 28], "UINT8")
tensor.set_data_from_numpy(pixels)
for request in [many.async_infer("digits", [tensor]) for _ in range(40)]:
    assert np.allclose(request.get_result().as_numpy("probabilities"), answers[0], atol=1e-5)
print("the client is content")
