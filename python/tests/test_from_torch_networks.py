"""freight.from_torch: whole networks as PyTorch's tutorials and well-known repositories write them."""
import math
import re

import numpy as np
import pytest

import freight as fr

torch = pytest.importorskip("torch")
T, F = torch.nn, torch.nn.functional


# nanoGPT.

class CausalSelfAttention(T.Module):
    def __init__(self, width, heads, block_size, flash):
        super().__init__()
        assert width % heads == 0
        self.c_attn, self.c_proj = T.Linear(width, 3 * width), T.Linear(width, width)
        self.attn_dropout, self.resid_dropout = T.Dropout(0.0), T.Dropout(0.0)
        self.n_head, self.n_embd, self.dropout, self.flash = heads, width, 0.0, flash
        if not flash:
            self.register_buffer("bias", torch.tril(torch.ones(block_size, block_size)).view(1, 1, block_size, block_size))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        if self.flash:
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=self.dropout if self.training else 0, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            att = F.softmax(att, dim=-1)
            att = self.attn_dropout(att)
            y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class LayerNorm(T.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = T.Parameter(torch.ones(ndim))
        self.bias = T.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class Block(T.Module):
    def __init__(self, width, heads, block_size, flash):
        super().__init__()
        self.ln_1, self.attn = LayerNorm(width, False), CausalSelfAttention(width, heads, block_size, flash)
        self.ln_2 = LayerNorm(width, True)
        self.mlp = T.ModuleDict({"c_fc": T.Linear(width, 4 * width), "gelu": T.GELU(), "c_proj": T.Linear(4 * width, width)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["c_proj"](self.mlp["gelu"](self.mlp["c_fc"](self.ln_2(x))))


class GPT(T.Module):
    def __init__(self, flash):
        super().__init__()
        self.block_size = 12
        self.transformer = T.ModuleDict(dict(wte=T.Embedding(30, 16), wpe=T.Embedding(12, 16), drop=T.Dropout(0.0),
                                             h=T.ModuleList([Block(16, 4, 12, flash) for _ in range(2)]), ln_f=LayerNorm(16, False)))
        self.lm_head = T.Linear(16, 30, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        device = idx.device
        b, t = idx.size()
        assert t <= self.block_size, f"Cannot forward sequence of length {t}, block size is only {self.block_size}"
        pos = torch.arange(0, t, dtype=torch.long, device=device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is not None:
            logits = self.lm_head(x)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        else:
            logits, loss = self.lm_head(x), None
        return logits, loss


# PyTorch's tutorial "Language Modeling with nn.Transformer".

class PositionalEncoding(T.Module):
    def __init__(self, d_model, dropout=0.0, max_len=50):
        super().__init__()
        self.dropout = T.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        x = x + self.pe[:x.size(0)]
        return self.dropout(x)


class TransformerModel(T.Module):
    def __init__(self):
        super().__init__()
        self.pos_encoder = PositionalEncoding(16)
        self.transformer_encoder = T.TransformerEncoder(T.TransformerEncoderLayer(16, 2, 32, 0.0), 2, enable_nested_tensor=False)
        self.embedding, self.d_model, self.linear = T.Embedding(30, 16), 16, T.Linear(16, 30)

    def forward(self, src, src_mask=None):
        src = self.embedding(src) * math.sqrt(self.d_model)
        src = self.pos_encoder(src)
        if src_mask is None:
            src_mask = T.Transformer.generate_square_subsequent_mask(len(src)).to(src.device)
        return self.linear(self.transformer_encoder(src, src_mask))


# PyTorch's tutorial "Translation with a Sequence to Sequence Network".

class EncoderRNN(T.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.embedding, self.gru, self.dropout = T.Embedding(30, hidden_size), T.GRU(hidden_size, hidden_size, batch_first=True), T.Dropout(0.0)

    def forward(self, input):
        return self.gru(self.dropout(self.embedding(input)))


class BahdanauAttention(T.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa, self.Ua, self.Va = T.Linear(hidden_size, hidden_size), T.Linear(hidden_size, hidden_size), T.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        scores = scores.squeeze(2).unsqueeze(1)
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(T.Module):
    def __init__(self, hidden_size, length=5):
        super().__init__()
        self.embedding, self.attention = T.Embedding(30, hidden_size), BahdanauAttention(hidden_size)
        self.gru, self.out, self.length = T.GRU(2 * hidden_size, hidden_size, batch_first=True), T.Linear(hidden_size, 30), length

    def forward(self, encoder_outputs, encoder_hidden, target_tensor=None):
        batch_size = encoder_outputs.size(0)
        decoder_input = torch.empty(batch_size, 1, dtype=torch.long, device=encoder_outputs.device).fill_(1)
        decoder_hidden, decoder_outputs, attentions = encoder_hidden, [], []
        for i in range(self.length):
            decoder_output, decoder_hidden, attn_weights = self.forward_step(decoder_input, decoder_hidden, encoder_outputs)
            decoder_outputs.append(decoder_output)
            attentions.append(attn_weights)
            if target_tensor is not None:
                decoder_input = target_tensor[:, i].unsqueeze(1)
            else:
                _, topi = decoder_output.topk(1)
                decoder_input = topi.squeeze(-1).detach()
        decoder_outputs = F.log_softmax(torch.cat(decoder_outputs, dim=1), dim=-1)
        return decoder_outputs, decoder_hidden, torch.cat(attentions, dim=1)

    def forward_step(self, input, hidden, encoder_outputs):
        embedded = self.embedding(input)
        query = hidden.permute(1, 0, 2)
        context, attn_weights = self.attention(query, encoder_outputs)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output), hidden, attn_weights


class Seq2Seq(T.Module):
    def __init__(self, forced):
        super().__init__()
        self.encoder, self.decoder, self.forced = EncoderRNN(12), AttnDecoderRNN(12), forced

    def forward(self, source):
        outputs, hidden = self.encoder(source)
        return self.decoder(outputs, hidden, source if self.forced else None)


class StatefulLSTM(T.Module):
    def __init__(self, how):
        super().__init__()
        self.hidden, self.how, self.lstm, self.fc = 6, how, T.LSTM(8, 6, 2, batch_first=True), T.Linear(6, 3)

    def forward(self, x):
        if self.how == "zeros":
            h0 = torch.zeros(2, x.size(0), self.hidden).to(x.device)
            c0 = torch.zeros(self.lstm.num_layers, x.shape[0], self.hidden, device=x.device).requires_grad_()
        elif self.how == "new":
            h0, c0 = x.new_zeros(2, len(x), self.hidden), x.new_ones((2, len(x), self.hidden))
        else:
            h0 = torch.full((2, x.size(0), self.hidden), 0.5, dtype=x.dtype)
            c0 = torch.ones_like(h0)
        out, (hn, cn) = self.lstm(x, (h0.detach(), c0.detach()))
        return self.fc(out[:, -1, :])


class DoubleConv(T.Module):
    def __init__(self, i, o):
        super().__init__()
        self.double_conv = T.Sequential(T.Conv2d(i, o, 3, padding=1, bias=False), T.BatchNorm2d(o), T.ReLU(inplace=True),
                                        T.Conv2d(o, o, 3, padding=1, bias=False), T.BatchNorm2d(o), T.ReLU(inplace=True))

    def forward(self, x):
        return self.double_conv(x)


class UNet(T.Module):
    """Pytorch-UNet's, with both ways up."""

    def __init__(self):
        super().__init__()
        self.inc, self.down1, self.down2 = DoubleConv(3, 6), T.Sequential(T.MaxPool2d(2), DoubleConv(6, 12)), T.Sequential(T.MaxPool2d(2), DoubleConv(12, 24))
        self.up1, self.conv1 = T.ConvTranspose2d(24, 12, 2, stride=2), DoubleConv(24, 12)
        self.up2, self.conv2 = T.Upsample(scale_factor=2, mode="bilinear", align_corners=True), DoubleConv(18, 6)
        self.outc = T.Conv2d(6, 2, 1)

    @staticmethod
    def joined(x1, x2):
        diffY, diffX = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return torch.cat([x2, x1], dim=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.conv1(self.joined(self.up1(x3), x2))
        x = self.conv2(self.joined(self.up2(x), x1))
        return self.outc(x)


class SEBlock(T.Module):
    def __init__(self, planes):
        super().__init__()
        self.conv1, self.bn1 = T.Conv2d(planes, planes, 3, padding=1, bias=False), T.BatchNorm2d(planes)
        self.avg_pool, self.fc = T.AdaptiveAvgPool2d(1), T.Sequential(T.Linear(planes, planes // 4), T.ReLU(inplace=True), T.Linear(planes // 4, planes), T.Sigmoid())

    def forward(self, x):
        residual = x
        out = F.relu(self.bn1(self.conv1(x)), inplace=True)
        b, c, _, _ = out.size()
        y = self.avg_pool(out).view(b, c)
        y = self.fc(y).view(b, c, 1, 1)
        out = out * y.expand_as(out)
        out += residual
        return F.relu(out)


class SEResNet(T.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.layers, self.fc = T.Conv2d(3, 8, 3, 2, 1), T.Sequential(SEBlock(8), SEBlock(8)), T.Linear(8, 5)

    def forward(self, x):
        x = self.layers(self.stem(x))
        x = F.adaptive_avg_pool2d(x, (1, 1))
        return self.fc(torch.flatten(x, 1))


class Vit(T.Module):
    """lucidrains's style: chunks in map, *sizes, einsum, unbind."""

    def __init__(self):
        super().__init__()
        self.patch, self.cls = T.Conv2d(3, 12, 4, 4), T.Parameter(torch.randn(1, 1, 12))
        self.pos, self.qkv, self.out = T.Parameter(torch.randn(1, 50, 12)), T.Linear(12, 36), T.Linear(12, 4)
        self.heads, self.scale = 3, np.float32(0.5)

    def split(self, x):
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)

    def forward(self, img):
        x = self.patch(img).flatten(2).transpose(1, 2)
        if x.dim() != 3:
            raise ValueError(f"expected three axes, got {x.dim()}")
        x = torch.cat((self.cls.repeat(x.shape[0], 1, 1), x), dim=1)
        x = x + self.pos[:, :x.shape[1]]
        q, k, v = map(self.split, self.qkv(x).chunk(3, dim=-1))
        dots = torch.einsum("bhid,bhjd->bhij", F.normalize(q, dim=-1), k) * self.scale
        i, j = dots.shape[-2:]
        mask = torch.ones((i, j), dtype=torch.bool, device=x.device).triu(j - i + 1)
        dots = dots.masked_fill(mask, -torch.finfo(dots.dtype).max)
        y = torch.einsum("bhij,bhjd->bhid", dots.softmax(dim=-1), v)
        y = y.transpose(1, 2).reshape(*x.shape[:2], -1)
        first, second = torch.stack((y, x)).unbind(0)
        return self.out(first[:, 0] + second.norm(dim=1) + (second ** 2).mean(1).sqrt())


class Masked(T.Module):
    """MultiheadAttention with both masks, and means over what is there."""

    def __init__(self):
        super().__init__()
        self.words, self.attention, self.out = T.Embedding(30, 8, padding_idx=0), T.MultiheadAttention(8, 2, batch_first=True), T.Linear(8, 3)

    def forward(self, tokens):
        hidden = tokens == 0
        x, n = self.words(tokens), tokens.size(1)
        causal = torch.triu(torch.ones(n, n, device=tokens.device), diagonal=1).bool()
        y, _ = self.attention(x, x, x, key_padding_mask=hidden, attn_mask=causal, need_weights=False)
        seen = (~hidden).unsqueeze(-1).float()
        mean = (y * seen).sum(1) / seen.sum(1).clamp(min=1)
        last = y[torch.arange(tokens.size(0)), (~hidden).sum(1) - 1]
        best = y.masked_fill(hidden[..., None], float("-inf")).max(dim=1).values
        return self.out(mean + last + best)


class Writes(T.Module):
    """Parts that are written one after the other, a loop over a fixed number of steps, and what no gradient goes through."""

    def __init__(self):
        super().__init__()
        self.cell, self.out, self.shift = T.GRUCell(8, 8), T.Linear(8, 3), torch.randn(8)

    def forward(self, x):
        h = torch.zeros(x.size(0), 8)
        outputs = torch.zeros(4, *h.shape)
        for t in range(4):
            h = self.cell(x[:, t], h)
            outputs[t] = h * (t + 1)
        outputs[:, :, 0] += 1
        with torch.no_grad():
            scale = outputs.abs().amax(dim=(0, 2), keepdim=True)
        mean = (outputs / scale).mean(0) + self.shift
        mean[mean < 0] = 0.5
        return self.out(mean)


def tokens(shape):
    x = torch.randint(1, 30, shape)
    x[0, -2:] = 0
    return x


def rows(shape):
    return torch.randn(shape)


NETS = {
    "nanoGPT": (lambda: GPT(False), tokens, [(3, 7), (2, 12)]), "nanoGPT, flash": (lambda: GPT(True), tokens, [(3, 7), (2, 12)]),
    "tutorial's transformer": (TransformerModel, tokens, [(7, 3), (9, 2)]),
    "seq2seq": (lambda: Seq2Seq(True), tokens, [(3, 7), (2, 9)]), "seq2seq, its own words": (lambda: Seq2Seq(False), tokens, [(3, 7), (2, 9)]),
    **{f"LSTM, {how}": (lambda how=how: StatefulLSTM(how), rows, [(3, 7, 8), (2, 4, 8)]) for how in ("zeros", "new", "full")},
    "U-Net": (UNet, rows, [(2, 3, 16, 16), (1, 3, 18, 13)]), "SE-ResNet": (SEResNet, rows, [(2, 3, 16, 16), (3, 3, 12, 20)]),
    "ViT": (Vit, rows, [(2, 3, 16, 16), (3, 3, 8, 12)]), "masks": (Masked, tokens, [(3, 7), (2, 5)]), "writes": (Writes, rows, [(3, 4, 8), (5, 6, 8)]),
}


def leaves(y):
    return [part for part in y if part is not None] if isinstance(y, (tuple, list)) else [y]


def compare(theirs, ours, x):
    """Outputs, and gradients of a weighted sum of them."""
    expected = leaves(theirs(x))
    for a, b in zip(leaves(ours(x.numpy())), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-4 * float(b.detach().abs().max()))
    weights = [torch.randn(y.shape) for y in expected]
    theirs.zero_grad()
    sum((y * w).sum() for y, w in zip(expected, weights)).backward()
    grads = fr.grad(lambda net, x, w: sum(fr.sum(y * v) for y, v in zip(leaves(net(x)), w)))(
        ours, fr.asarray(x.numpy()), [fr.asarray(w.numpy()) for w in weights])
    for path, p in theirs.named_parameters():
        if path in grads:
            off = np.linalg.norm(grads[path].numpy() - p.grad.numpy())
            assert off <= 1e-3 * np.linalg.norm(p.grad.numpy()) + 1e-6, path


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", NETS)
def test_networks_are_pytorchs_for_all_sizes_and_with_loaded_weights(name, training, tmp_path):
    make, inputs, shapes = NETS[name]
    torch.manual_seed(0)
    theirs = make().train(training)
    before = {path: set(vars(m)) for path, m in theirs.named_modules()}
    ours = fr.from_torch(theirs)
    assert {path: set(vars(m)) for path, m in theirs.named_modules()} == before
    for shape in shapes:
        compare(theirs, ours, inputs(shape))
    with torch.no_grad():
        for p in theirs.parameters():
            p.mul_(0.9)
    ours.load_state_dict({k: v for k, v in theirs.state_dict().items()})
    x = inputs(shapes[0])
    compare(theirs, ours, x)
    ours.eval()
    path = tmp_path / "net.safetensors"
    assert ours.save(path, input_shape=shapes[0][1:])
    loaded = fr.load(path)
    for shape in shapes:
        x = inputs(shape)
        for a, b in zip(leaves(loaded(x.numpy())), leaves(ours(x.numpy())), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def vision(name, **settings):
    models = pytest.importorskip("torchvision").models
    return getattr(models, name)(**({} if name[0].isupper() else {"weights": None}), num_classes=5, **settings)


def swin(**settings):
    return vision("SwinTransformer", patch_size=[4, 4], embed_dim=12, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4], **settings)


def swin2():
    models = pytest.importorskip("torchvision").models.swin_transformer
    return swin(block=models.SwinTransformerBlockV2, downsample_layer=models.PatchMergingV2)


VISION = {
    "swin": (swin, 48), "swin_v2": (swin2, 40), "efficientnet_b0": (lambda: vision("efficientnet_b0"), 48),
    "vit": (lambda: vision("VisionTransformer", image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32), 32),
    **{name: (lambda name=name: vision(name), 48) for name in ("mobilenet_v3_small", "regnet_y_400mf", "shufflenet_v2_x0_5", "mnasnet0_5", "squeezenet1_1")},
}


@pytest.mark.parametrize("name", VISION)
def test_torchvisions_networks(name, tmp_path):
    torch.manual_seed(0)
    make, size = VISION[name]
    theirs = make()
    for m in theirs.modules():
        if isinstance(m, T.BatchNorm2d):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.5, 1.5)
        elif isinstance(m, T.Linear):
            T.init.normal_(m.weight, std=0.1)
    theirs.eval()
    ours, x = fr.from_torch(theirs), torch.randn(2, 3, size, size)
    compare(theirs, ours, x)
    assert ours.save(tmp_path / "net.safetensors", input_shape=x.shape[1:])
    np.testing.assert_array_equal(fr.load(tmp_path / "net.safetensors")(x.numpy()).numpy(), ours(x.numpy()).numpy())


@pytest.mark.parametrize("name, size", [("densenet121", 64), ("inception_v3", 96), ("convnext_tiny", 64)])
def test_outputs_of_large_networks(name, size):
    torch.manual_seed(0)
    theirs, x = vision(name, **({"init_weights": False} if name == "inception_v3" else {})).eval(), torch.randn(2, 3, size, size)
    with torch.no_grad():
        expected = theirs(x)
    np.testing.assert_allclose(fr.from_torch(theirs)(x.numpy()).numpy(), expected.numpy(), rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


# Modules around modules, weights that are computed, samples of several lengths.

class Around(T.Module):
    def __init__(self):
        super().__init__()
        self.inside, self.parallel = torch.compile(SEResNet()), T.DataParallel(T.Linear(5, 2))

    def forward(self, x):
        return self.parallel(self.inside(x))


@pytest.mark.parametrize("make", [lambda: torch.compile(SEResNet()), lambda: T.DataParallel(SEResNet()), lambda: torch.compile(T.DataParallel(SEResNet()))])
def test_what_is_put_around_a_module_is_taken_off(make):
    theirs, x = make().eval(), torch.randn(2, 3, 8, 8)
    ours, inside = fr.from_torch(theirs), theirs
    while not isinstance(inside, SEResNet):
        inside = inside._orig_mod if hasattr(inside, "_orig_mod") else inside.module
    compare(inside, ours, x)
    assert ours.kind == "SEResNet" and "fc.weight" in ours.state_dict()


def test_parts_may_be_compiled_or_parallel():
    theirs, x = Around().eval(), torch.randn(2, 3, 8, 8)
    ours = fr.from_torch(theirs)
    assert {"inside._orig_mod.fc.weight", "parallel.module.weight"} <= set(ours.state_dict())
    np.testing.assert_allclose(ours(x.numpy()).numpy(), theirs.parallel.module(theirs.inside._orig_mod(x)).detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("wrap", [T.utils.parametrizations.weight_norm, T.utils.parametrizations.spectral_norm, T.utils.parametrizations.orthogonal,
                                  T.utils.weight_norm, T.utils.spectral_norm], ids=["weight", "spectral", "orthogonal", "old weight", "old spectral"])
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_computed_weights_become_plain_ones(wrap):
    torch.manual_seed(0)
    theirs, x = T.Sequential(wrap(T.Linear(4, 4)), T.ReLU(), T.Linear(4, 2)).eval(), torch.randn(3, 4)
    names = set(theirs.state_dict())
    with pytest.warns(UserWarning, match="from_torch: 0.weight: computed by a parametrization, from here on a weight that is trained itself"):
        ours = fr.from_torch(theirs)
    np.testing.assert_allclose(ours(x.numpy()).numpy(), theirs(x).detach().numpy(), rtol=1e-4, atol=1e-6)
    assert set(ours.state_dict()) == {"0.weight", "0.bias", "2.weight", "2.bias"} and set(theirs.state_dict()) == names


class Lengths(T.Module):
    def __init__(self):
        super().__init__()
        self.words, self.states, self.out = T.Embedding(30, 8), T.LSTM(8, 6, batch_first=True, bidirectional=True), T.Linear(12, 3)

    def forward(self, tokens, lengths):
        packed = T.utils.rnn.pack_padded_sequence(self.words(tokens), lengths, batch_first=True, enforce_sorted=False)
        y, (h, _) = self.states(packed)
        y, _ = T.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=tokens.size(1))
        return self.out(torch.cat([h[0], h[1]], dim=-1) + y.mean(dim=1))


def test_packed_sequences_are_lengths():
    theirs, x, n = Lengths(), torch.randint(0, 30, (3, 6)), torch.tensor([4, 6, 2])
    ours, y = fr.from_torch(theirs), theirs(x, n)
    np.testing.assert_allclose(ours(x.numpy(), n.numpy()).numpy(), y.detach().numpy(), rtol=1e-4, atol=1e-6)
    y.sum().backward()
    grads = fr.grad(lambda net, x, n: fr.sum(net(x, n)))(ours, fr.asarray(x.numpy()), fr.asarray(n.numpy()))
    for name, p in theirs.named_parameters():
        np.testing.assert_allclose(grads[name].numpy(), p.grad.numpy(), rtol=1e-3, atol=1e-5, err_msg=name)


# Functions.

class Called(T.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.weight = function, T.Parameter(torch.randn(4))
        self.register_buffer("table", torch.randn(9, 4))

    def forward(self, x):
        return self.function(self, x * self.weight)



FUNCTIONS = {
    "norm of all": lambda m, x: x.norm(), "norm 1": lambda m, x: torch.norm(x, p=1, dim=1, keepdim=True), "vector_norm": lambda m, x: torch.linalg.vector_norm(x, dim=-1),
    "linalg.norm": lambda m, x: torch.linalg.norm(x, dim=1), "norm inf": lambda m, x: torch.linalg.norm(x, ord=float("inf"), dim=-1),
    "unfold": lambda m, x: x.unfold(1, 2, 1), "roll": lambda m, x: torch.roll(x, 1, 0), "flip": lambda m, x: x.flip(0, 1), "outer": lambda m, x: torch.outer(x[0], x[1]),
    "gather": lambda m, x: x.gather(1, x.argsort(dim=1)[:, :2]), "sort": lambda m, x: x.sort(dim=1, descending=True)[0], "topk": lambda m, x: x.topk(2).values,
    "cumsum": lambda m, x: x.cumsum(0), "meshgrid": lambda m, x: torch.meshgrid(x[0], x[1], indexing="ij")[0], "repeat_interleave": lambda m, x: x.repeat_interleave(2, dim=0),
    "nan_to_num": lambda m, x: torch.nan_to_num(torch.log(x)), "type_as": lambda m, x: (x > 0).type_as(x) * x, "to": lambda m, x: (x > 0).to(x.dtype).to("cpu") * x.to(m.table),
    "linspace": lambda m, x: torch.linspace(0, 1, x.size(0))[:, None] * x, "eye": lambda m, x: torch.eye(4, device=x.device) @ x.t(), "new_full": lambda m, x: x.new_full((2, 4), 0.5) * x[:2],
    "tensor": lambda m, x: x * torch.tensor([x.size(0), 1, 2, 3]).float(), "ones_like": lambda m, x: torch.ones_like(x[:, :1]) + x, "div": lambda m, x: torch.div(x, 0.3, rounding_mode="floor") + x,
    "buffer": lambda m, x: x + m.table[:x.shape[0]].flip(0), "take": lambda m, x: m.table[torch.arange(x.size(0)).flip(0)] * x, "diagonal": lambda m, x: x.diagonal(offset=1),
    "lerp": lambda m, x: torch.lerp(x, x ** 2, 0.3), "addcmul": lambda m, x: torch.addcmul(x, x, x, value=0.5), "baddbmm": lambda m, x: torch.baddbmm(x[None], x[None, :, :2], x[None, :2]),
    "fill": lambda m, x: torch.empty_like(x).fill_(2.0) * x, "index_select": lambda m, x: x.index_select(1, torch.tensor([2, 0])), "movedim": lambda m, x: x[None].movedim(0, -1),
    "unpacked": lambda m, x: torch.stack([*x.chunk(3)]).sum(0), "attention": lambda m, x: F.scaled_dot_product_attention(
        x[None], x[None], x[None], attn_mask=torch.ones(x.size(0), x.size(0)).tril().bool()),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_pytorchs(name):
    torch.manual_seed(0)
    theirs = Called(FUNCTIONS[name])
    compare(theirs, fr.from_torch(theirs), torch.randn(3, 4))


def test_noise_is_drawn_in_every_call():
    ours = fr.from_torch(Called(lambda m, x: x + torch.randn(3, 4) + torch.rand_like(x)))
    x = fr.ones((3, 4))
    assert np.abs(ours(x).numpy() - ours(x).numpy()).min() > 0


def test_parameters_with_a_default_may_be_inputs():
    theirs, x = TransformerModel().eval(), torch.randint(0, 30, (5, 2))
    ours, mask = fr.from_torch(theirs, inputs=["src", "src_mask"]), torch.zeros(5, 5)
    np.testing.assert_allclose(ours(x.numpy(), mask.numpy()).numpy(), theirs(x, mask).detach().numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(TypeError, match=r"TransformerModel: expected 1 inputs \(src\), got 2: from_torch\(module, inputs=\[...\]\) names others"):
        fr.from_torch(theirs)(x.numpy(), mask.numpy())
    for names, text in ((["src", "mask"], "forward has no parameter 'mask': expected some of src, src_mask"),
                        (["src_mask"], "inputs: src has no default: expected it among the inputs")):
        with pytest.raises(TypeError, match=text):
            fr.from_torch(theirs, inputs=names)


# What cannot be converted, line by line.

def by_value(self, x):
    if x.sum() > 0:
        return x
    return -x


def by_size(self, x):
    return x[:, :4] if x.size(1) > 4 else x


def steps(self, x):
    for t in range(x.size(1)):
        x = x + x[:, t:t + 1]
    return x


def comprehension(self, x):
    return torch.stack([row * 2 for row in x])


def number(self, x):
    return x[:, :int(x.size(1) / 2)]


def item(self, x):
    return x * x.max().item()


def with_numpy(self, x):
    return x + np.sqrt(x.shape[1])


def helper(x):
    return torch.stft(x, 4)


def by_helper(self, x):
    return helper(x)


def buffer_assigned(self, x):
    self.table = self.table + 1
    return x


def buffer_changed(self, x):
    self.table.add_(1)
    return x + self.table[:3]


def view_read(self, x):
    y = torch.zeros_like(x)
    first = y[:, 0]
    y[:, 0] = 1
    return first


LINES = [
    (by_value, "`if x.sum() > 0:` decides by a value or a size that only a call knows: expected torch.where for values, and settings of the module"),
    (by_size, "`return x[:, :4] if x.size(1) > 4 else x` decides by a value or a size that only a call knows"),
    (steps, "`for t in range(x.size(1)):` needs a number that only a call knows, such as a size of the input: expected a loop of a fixed number of steps"),
    (comprehension, "`return torch.stack([row * 2 for row in x])` loops over what only a call knows, or takes it apart: expected x.chunk(n), names for all parts"),
    (number, "`return x[:, :int(x.size(1) / 2)]` makes a Python number of a value that only a call knows: expected sizes as they are, x.size(1) // 2"),
    (item, "`return x * x.max().item()`: Tensor.item is no function of Freight: use functions of whole tensors: their values are not known before a call"),
    (with_numpy, "`return x + np.sqrt(x.shape[1])` hands a tensor or a size to a function of NumPy: expected functions of torch or math"),
    (by_helper, "`return torch.stft(x, 4)`"),
    (buffer_assigned, "`self.table = self.table + 1` changes the buffer table: expected buffers that stay as they are, or a result of forward"),
    (buffer_changed, "`self.table.add_(1)`: forward changes 0.table, which stays as it is in the network: expected a result of forward"),
    (view_read, "`y[:, 0] = 1`: setitem changes zeros_like, of which getitem is a view, which is read again: expected no change in place"),
]


@pytest.mark.parametrize("function, text", LINES, ids=[f.__name__ for f, _ in LINES])
def test_the_line_is_named_and_what_to_do(function, text):
    theirs = Called(function)
    table, first = theirs.table.clone(), (helper if function is by_helper else function).__code__.co_firstlineno
    with pytest.raises(TypeError, match="from_torch: .*test_from_torch_networks.py") as error:
        fr.from_torch(T.Sequential(theirs))
    found = re.search(r"test_from_torch_networks.py:(\d+): ", str(error.value))
    assert text in str(error.value) and 0 < int(found[1]) - first < 4
    assert torch.equal(theirs.table, table)


def test_compiled_scripts_and_hooks_are_named():
    with pytest.raises(TypeError, match="expected the module itself, got one that torch.jit has compiled"):
        fr.from_torch(torch.jit.trace(T.Linear(4, 4), torch.zeros(1, 4)))
    theirs = T.Sequential(T.Linear(4, 4))
    theirs[0].register_forward_hook(lambda module, given, result: result * 2)
    with pytest.warns(UserWarning, match="from_torch: 0: hooks may be left out, with what they change"):
        fr.from_torch(theirs)


# Names of results.

class NamedResults(T.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = T.Linear(4, 3), T.Linear(4, 1)

    def forward(self, x):
        return {"classes": self.a(x), "more": {"value": self.b(x).squeeze(-1)}}


def test_names_of_results_are_stored(tmp_path):
    theirs, x = NamedResults().eval(), torch.randn(5, 4)
    ours, y = fr.from_torch(theirs), theirs(x)
    assert ours.save(tmp_path / "net.safetensors", input_shape=(4,))
    for net in (ours, fr.load(tmp_path / "net.safetensors")):
        found = net.predict(x.numpy())
        assert list(found) == ["classes", "more"] and list(found["more"]) == ["value"]
        np.testing.assert_allclose(found["more"]["value"].numpy(), y["more"]["value"].detach().numpy(), rtol=1e-5)
