#!/usr/bin/env python3
"""Images per second of Freight's input pipeline next to those of PyTorch's DataLoader and NVIDIA DALI on the CPU, in alternation.

usage: bench/compare_images.py [FORMAT ...] --images DIR [--flowers DIR] [--modes train,eval] [--cores 1,2] [--rounds 3] [--seconds 3]
                               [--program build/bench/bench_image_pipeline] [--old PROGRAM] [--dali PYTHON] [--out FILE.json]

`train` is a random resized crop to 224, a horizontal flip and ImageNet's normalization; `eval` resizes the shorter side to 256 and takes
the center crop. All resize with bilinear antialiasing into f32 batches (N, 3, 224, 224). PyTorch's DataLoader decodes with torchvision
or with Pillow, in the process itself on one core and in a worker per core on more; DALI has a thread per core. Each round runs every side
in a process of its own, bound to those cores; a ratio is that within a round, and printed are the medians of the rounds. Freight's first
epochs decode each file to its end; `images_per_s` is that of later epochs. --old: another build's program, in turns.

The images are made once by Pillow in --images from the photographs below --flowers (data/unpack.sh): enlarged (bicubic) and with noise,
which gives files of the size that photographs of a camera have. Needs a Python with torch and torchvision; --dali names a Python with
nvidia.dali, which may be another one. Run it on an otherwise idle machine.
"""
import argparse
import datetime
import glob
import json
import math
import os
import statistics
import sys
import time

from compare_torch import child, machine, write

# name: (columns, rows, ending, options of Pillow's save, images, standard deviation of the noise, batch)
FORMATS = {
    "jpeg": (500, 375, "jpg", {"quality": 94}, 1000, 12, 64),
    "jpeg_12mp": (4000, 3000, "jpg", {"quality": 90}, 64, 9, 16),
    "png": (500, 375, "png", {}, 256, 12, 64),
    "webp": (500, 375, "webp", {"quality": 80}, 512, 12, 64),
}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make_images(name, flowers, folder):
    import numpy as np
    from PIL import Image
    columns, rows, ending, options, count, deviation, _ = FORMATS[name]
    sources = sorted(glob.glob(os.path.join(flowers, "*", "*.jpg")))
    if len(sources) < count:
        sys.exit(f"{flowers}: expected at least {count} photographs in class folders, got {len(sources)}")
    random = np.random.default_rng(0)
    for path in (sources[i * len(sources) // count] for i in range(count)):
        to = os.path.join(folder, "train", os.path.basename(os.path.dirname(path)))
        os.makedirs(to, exist_ok=True)
        pixels = np.asarray(Image.open(path).convert("RGB").resize((columns, rows), Image.BICUBIC), np.float32)
        pixels = pixels + random.standard_normal(pixels.shape, np.float32) * deviation
        image = Image.fromarray(pixels.round().clip(0, 255).astype(np.uint8))
        image.save(os.path.join(to, os.path.splitext(os.path.basename(path))[0] + "." + ending), **options)


def files_of(folder):
    return sorted(glob.glob(os.path.join(folder, "train", "*", "*")))


def rate(batches, seconds):
    """Images per second between batches, once the workers have started. Freight, which runs first, has filled the page cache."""
    for _ in range(3):
        next(batches)
    images, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        images += next(batches)
    return images / (time.perf_counter() - start)


def torch_batches(decoder, paths, mode, workers, batch):
    import torch
    from PIL import Image
    from torchvision import io
    from torchvision.transforms import v2
    torch.set_num_threads(1)
    resize = [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()] if mode == "train" else \
        [v2.Resize(256, antialias=True), v2.CenterCrop(224)]
    transform = v2.Compose([*resize, v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])

    class Files(torch.utils.data.Dataset):
        def __len__(self):
            return len(paths)

        def __getitem__(self, i):
            if decoder == "torchvision":
                image = io.decode_image(io.read_file(paths[i]), io.ImageReadMode.RGB)
            else:
                with open(paths[i], "rb") as file:  # as torchvision.datasets.ImageFolder does
                    image = Image.open(file).convert("RGB")
            return transform(image), i % 10

    files = Files()
    order = torch.utils.data.RandomSampler(files, num_samples=1000 * len(paths))  # an epoch's end would be a pause
    for x, _ in torch.utils.data.DataLoader(files, batch, sampler=order, num_workers=workers):
        yield len(x)


def dali_batches(paths, mode, threads, batch):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=batch, num_threads=threads, device_id=None)
    def pipeline():
        files, labels = fn.readers.file(files=paths, random_shuffle=True, name="files")
        options = {"interp_type": types.INTERP_LINEAR, "antialias": True}
        if mode == "train":
            images = fn.decoders.image_random_crop(files, device="cpu", output_type=types.RGB)
            images = fn.resize(images, resize_x=224, resize_y=224, **options)
        else:
            images = fn.resize(fn.decoders.image(files, device="cpu", output_type=types.RGB), resize_shorter=256, **options)
        mirror = fn.random.coin_flip() if mode == "train" else 0
        return fn.crop_mirror_normalize(images, crop=(224, 224), mirror=mirror, dtype=types.FLOAT, output_layout="CHW",
                                        mean=[255 * m for m in MEAN], std=[255 * s for s in STD]), labels

    made = pipeline()
    made.build()
    while True:
        yield len(made.run()[0])


def run_side(side, folder, mode, cores, a):
    paths, batch = files_of(folder), FORMATS[a.formats[0]][-1]
    batches = dali_batches(paths, mode, cores, batch) if side == "dali" else \
        torch_batches(side, paths, mode, cores if cores > 1 else 0, batch)
    print(json.dumps({"images_per_s": rate(batches, a.seconds)}))


def compare(name, mode, cores, a):
    """The rounds of one row, and their medians."""
    folder, batch = os.path.join(a.images, name), FORMATS[name][-1]
    bound = ["taskset", "-c", "0" if cores == 1 else f"0-{cores - 1}"]
    freight = [folder, mode, str(cores), str(batch), str(a.seconds)]
    sides = {"freight": [a.program, *freight]}
    if a.old:
        sides["old"] = [a.old, *freight]
    for side in ("torchvision", "pillow", *(["dali"] if a.dali else [])):
        sides[side] = [a.dali if side == "dali" else sys.executable, __file__, name, "--images", a.images, "--child", side, mode,
                       str(cores), "--seconds", str(a.seconds)]
    rounds = []
    for _ in range(a.rounds):
        row = {side: child([*bound, *command]) for side, command in sides.items()}
        for side, got in row.items():
            if "error" in got:
                sys.exit(f"{name}, {side}: {got['error']}")
        rounds.append(row)

    def middle(of):
        return statistics.median(of(r) for r in rounds)

    def ratio(*others):
        return middle(lambda r: r["freight"]["images_per_s"] / max(r[o]["images_per_s"] for o in others))

    result = {"images_per_s": {side: middle(lambda r, side=side: r[side]["images_per_s"]) for side in sides},
              "first_epoch": middle(lambda r: r["freight"]["first_epoch"]), "ratio_torch": ratio("torchvision", "pillow"),
              **({"ratio_dali": ratio("dali")} if a.dali else {}), **({"ratio_old": ratio("old")} if a.old else {}), "rounds": rounds}
    speeds = "  ".join(f"{side} {value:.0f}" for side, value in result["images_per_s"].items())
    ratios = "  ".join(f"{key[6:]} {value:.2f}" for key, value in result.items() if key.startswith("ratio"))
    print(f"{name:10s} {mode:5s} {cores} cores: images/s {speeds}  first epoch {result['first_epoch']:.0f}   ratios {ratios}", flush=True)
    return result


def main():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(FORMATS))
    a.add_argument("--images", required=True, metavar="DIR")
    a.add_argument("--flowers", metavar="DIR")
    a.add_argument("--modes", default="train,eval")
    a.add_argument("--cores", default="1,2")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=3)
    a.add_argument("--program", default="build/bench/bench_image_pipeline")
    a.add_argument("--old", metavar="PROGRAM")
    a.add_argument("--dali", metavar="PYTHON")
    a.add_argument("--out")
    a.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    parser, a = a, a.parse_args()
    unknown = set(a.formats) - set(FORMATS)
    if unknown:
        parser.error(f"no such format: {', '.join(sorted(unknown))}; there are {', '.join(FORMATS)}")
    if a.child:
        side, mode, cores = a.child
        return run_side(side, os.path.join(a.images, a.formats[0]), mode, int(cores), a)
    result = {"date": datetime.date.today().isoformat(), "machine": machine(), "command": " ".join(sys.argv), "rows": {}}
    for name in a.formats or FORMATS:
        folder = os.path.join(a.images, name)
        if not os.path.exists(folder):
            if not a.flowers:
                parser.error(f"{folder} does not exist: --flowers names the photographs that it is made of")
            make_images(name, a.flowers, folder)
        paths = files_of(folder)
        size = sum(map(os.path.getsize, paths)) / len(paths)
        rows = {f"{mode}, {cores} cores": compare(name, mode, int(cores), a)
                for mode in a.modes.split(",") for cores in a.cores.split(",")}
        means = {key: math.exp(statistics.fmean(math.log(row[key]) for row in rows.values())) for key in ("ratio_torch", "ratio_dali")
                 if all(key in row for row in rows.values())}
        result["rows"][name] = {"images": len(paths), "bytes_per_image": round(size), **means, **rows}
        write(result, a.out)
    return None


if __name__ == "__main__":
    main()
