"""Weights that are still being read from a file, fed to a fused forward pass by eight threads; and files that are cut."""
import os
import tempfile
import threading

import scene

np, weft = scene.start("SIGSEGV: a fused kernel gets a lazily loaded array whose buffer does not exist yet")
THREADS, PASSES, LAYERS, WIDTH, WORDS, BATCH = 8, 1000, 3, 96, 2048, 16
rng = np.random.default_rng(0)
IDS = weft.array(rng.integers(0, WORDS, BATCH).astype(np.int32))
lock = threading.Lock()
counts = {"right": 0, "refused": 0}


def make_weights():
    weights = {"words": rng.normal(size=(WORDS, WIDTH))}
    for l in range(LAYERS):
        weights[f"w{l}"], weights[f"g{l}"] = rng.normal(size=(WIDTH, WIDTH)) / 10, rng.normal(size=WIDTH)
    return {name: weft.array(w.astype(np.float32)) for name, w in weights.items()}


def forward(w):
    x = w["words"][IDS]
    for l in range(LAYERS):
        x = x + weft.tanh(weft.rms_norm(x, w[f"g{l}"]) @ w[f"w{l}"])
    return x


def one_pass(w, is_async, may_be_cut):
    """Right to the last bit, or refused because the file is not there any more."""
    try:
        y = forward(w)
        if is_async:
            weft.async_eval(y)
        is_right, kind = np.array_equal(np.asarray(y), reference), "right"
    except OSError as error:
        is_right, kind = may_be_cut and path in str(error), "refused"
    with lock:
        counts[kind] += 1
        scene.expect(is_right, f"a pass of a file that {'may be' if may_be_cut else 'is not'} cut")


def read_on(index, passes, shared, may_be_cut):
    if scene.backend == "gpu":
        weft.set_device(1)
    for i in range(passes):
        try:
            w = shared if i % 4 == 0 else weft.load(path)
            weft.async_eval(w)
        except (OSError, ValueError) as error:
            with lock:
                counts["refused"] += 1
                scene.expect(may_be_cut, str(error))
            continue
        one_pass(w, (i + index) % 2, may_be_cut)


def run_threads(passes, cut_to=None):
    weft.save_safetensors(path, weights)
    shared = weft.load(path)
    threads = [threading.Thread(target=read_on, args=(i, passes, shared, cut_to is not None)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    if cut_to is not None:
        os.truncate(path, cut_to)
    for thread in threads:
        thread.join()


def cut_file(to, is_started):
    weft.save_safetensors(path, weights)
    w = weft.load(path)
    if is_started:
        weft.async_eval(w)
    os.truncate(path, to)
    before = counts["refused"]
    one_pass(w, is_started, True)
    scene.expect(is_started or counts["refused"] == before + 1, "a file cut before it was read was not refused")


weights = make_weights()
reference = np.asarray(forward(weights))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "weights.safetensors")
    for how in ("map", "pread"):
        os.environ["WEFT_READ"] = how
        run_threads(PASSES // THREADS)
        for to in (0, 100, 5000, 300000):
            cut_file(to, False)
            cut_file(to, True)
            run_threads(10, to)
scene.end(f"{counts['right']} passes by {THREADS} threads right to the last bit, while the weights were still on their way;\n"
          f"              {counts['refused']} looks at cut files refused with a reason")
