// Memory shared with other libraries: the buffer protocol and DLPack, both ways. Nothing is copied unless asked for.
#include <nanobind/stl/optional.h>

#include "array.h"

namespace freight::python {

namespace {

// DLPack's structs, version 1: https://dmlc.github.io/dlpack/latest/c_api.html.
struct DlDevice {
  int32_t type, id;
};
struct DlType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  DlType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DlManaged {
  DlTensor tensor;
  void* context;
  void (*deleter)(DlManaged*);
};
struct DlManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DlManagedVersioned*);
  uint64_t flags;
  DlTensor tensor;
};
constexpr uint64_t kReadOnly = 1, kCopied = 2;
constexpr int32_t kCpu = 1;

DlType dl_type(DType dtype) {
  uint8_t code = 0;
  switch (info(dtype).kind) {
    case NumberKind::signed_integer: code = 0; break;
    case NumberKind::unsigned_integer: code = 1; break;
    case NumberKind::floating: code = dtype == DType::bf16 ? 4 : 2; break;
    case NumberKind::complex: code = 5; break;
    case NumberKind::boolean: code = 6; break;
  }
  return {code, static_cast<uint8_t>(8 * size_of(dtype)), 1};
}

std::optional<DType> dtype_of_dl(DlType t) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DlType own = dl_type(static_cast<DType>(i));
    if (own.code == t.code && own.bits == t.bits && t.lanes == 1) return static_cast<DType>(i);
  }
  return std::nullopt;
}

// An exported tensor, with the memory that it needs as long as it lives.
template <class Managed>
struct Exported {
  Managed managed;
  View view;
};

template <class Managed>
Exported<Managed>* exported(const View& view) {
  auto* e = new Exported<Managed>{{}, view};
  for (int a = 0; a < view.rank(); ++a) {
    if (e->view.shape[a] <= 1) e->view.strides[a] = 1;  // meaningless, and some readers refuse odd ones
  }
  e->managed.tensor = {
      view.data, {kCpu, 0}, view.rank(), dl_type(view.dtype), e->view.shape.begin(), e->view.strides.begin(), 0};
  e->managed.context = e;
  e->managed.deleter = [](Managed* m) { delete static_cast<Exported<Managed>*>(m->context); };
  return e;
}

template <class Managed>
void delete_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;  // used: its taker deletes it
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  m->deleter(m);
}

nb::object to_dlpack(nb::handle self, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                     nb::handle copies) {
  PyArray& x = array_of(self, "__dlpack__");
  if (!dl_device.is_none()) {
    const nb::tuple d = nb::cast<nb::tuple>(dl_device);
    if (nb::cast<int>(nb::int_(d[0])) != kCpu)
      throw nb::buffer_error("__dlpack__: only memory of the host is exported: use x.to(device) there");
  }
  if (!stream.is_none())
    raise<ValueError>("__dlpack__: memory of the host has no stream: got ", nb::repr(stream).c_str());
  const bool copied = !copies.is_none() && nb::cast<bool>(copies);
  const View view = copied ? copy(host(x)) : host(x);
  int64_t major = 0;
  if (!max_version.is_none()) major = integer_of(nb::cast<nb::tuple>(max_version)[0], "max_version");
  if (major >= 1) {
    auto* e = exported<DlManagedVersioned>(view);
    e->managed.major = 1;
    e->managed.minor = 1;
    e->managed.flags = (view.block->writable ? 0 : kReadOnly) | (copied ? kCopied : 0);
    return nb::steal(PyCapsule_New(&e->managed, "dltensor_versioned",
                                   [](PyObject* c) { delete_capsule<DlManagedVersioned>(c, "dltensor_versioned"); }));
  }
  if (!view.block->writable)
    throw nb::buffer_error("__dlpack__: read-only memory needs a reader of DLPack 1.0: ask it for a copy");
  auto* e = exported<DlManaged>(view);
  return nb::steal(
      PyCapsule_New(&e->managed, "dltensor", [](PyObject* c) { delete_capsule<DlManaged>(c, "dltensor"); }));
}

View view_of(const DlTensor& t, bool writable, std::shared_ptr<void> owner) {
  if (t.device.type != kCpu && t.device.type != 3 && t.device.type != 11)
    throw nb::buffer_error("from_dlpack: the memory is not the host's: move it there first");
  const std::optional<DType> dtype = dtype_of_dl(t.dtype);
  if (!dtype)
    raise<TypeError>("from_dlpack: unknown element type: code ", int{t.dtype.code}, ", ", int{t.dtype.bits}, " bits, ",
                     t.dtype.lanes, " lanes");
  const Shape shape(t.shape, t.shape + t.rank);
  const Strides strides = t.strides ? Strides(t.strides, t.strides + t.rank) : contiguous_strides(shape);
  return View(*dtype, shape, strides, static_cast<char*>(t.data) + t.byte_offset, writable, std::move(owner));
}

template <class Managed>
std::shared_ptr<void> owner_of(Managed* m) {
  return {m, [](Managed* p) {
            if (p->deleter && Py_IsInitialized()) p->deleter(p);
          }};
}

View from_capsule(nb::handle capsule) {
  PyObject* c = capsule.ptr();
  if (PyCapsule_IsValid(c, "dltensor_versioned")) {
    auto* m = static_cast<DlManagedVersioned*>(PyCapsule_GetPointer(c, "dltensor_versioned"));
    if (m->major > 1) raise<TypeError>("from_dlpack: DLPack version ", m->major, ": expected 1");
    PyCapsule_SetName(c, "used_dltensor_versioned");
    auto owner = owner_of(m);
    return view_of(m->tensor, !(m->flags & kReadOnly), std::move(owner));
  }
  if (PyCapsule_IsValid(c, "dltensor")) {
    auto* m = static_cast<DlManaged*>(PyCapsule_GetPointer(c, "dltensor"));
    PyCapsule_SetName(c, "used_dltensor");
    auto owner = owner_of(m);
    return view_of(m->tensor, true, std::move(owner));
  }
  raise<ValueError>("from_dlpack: expected an unused DLPack capsule");
}

// Python's Py_buffer, whose layout is part of the stable ABI from 3.11 on and has been the same since 3.3.
struct Buffer {
  void* data;
  PyObject* owner;
  Py_ssize_t bytes, item_size;
  int read_only, rank;
  char* format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void* internal;
};
constexpr int kWritable = 1, kFormat = 4, kStrides = 0x18, kContiguous = 0x38 | 0x58 | 0x98;
constexpr int kGetBuffer = 1, kReleaseBuffer = 2;  // Py_bf_getbuffer, Py_bf_releasebuffer

struct BufferInfo {
  View view;
  Py_ssize_t shape[Shape::kMaxRank], strides[Shape::kMaxRank];
};

int get_buffer(PyObject* self, void* target, int flags) {
  auto* b = static_cast<Buffer*>(target);
  b->owner = nullptr;
  try {
    const View& v = host(*nb::inst_ptr<PyArray>(self));
    const char* format = buffer_format(v.dtype);
    const char* problem = nullptr;
    if (!format) problem = "bfloat16 has no buffer format: use DLPack, or astype(float32)";
    if ((flags & kWritable) && !v.block->writable) problem = "the array is read-only";
    const bool strided = (flags & kStrides) == kStrides;
    if (((flags & kContiguous & ~0x18) || !strided) && !v.is_contiguous())
      problem = "the array is not contiguous: take copy(x)";
    if (problem) {
      PyErr_SetString(PyExc_BufferError, problem);
      return -1;
    }
    auto* i = new BufferInfo{v, {}, {}};
    for (int a = 0; a < v.rank(); ++a) {
      i->shape[a] = static_cast<Py_ssize_t>(v.shape[a]);
      i->strides[a] = static_cast<Py_ssize_t>(v.strides[a] * static_cast<int64_t>(v.item_size()));
    }
    b->data = v.data;
    Py_INCREF(self);
    b->owner = self;
    b->item_size = static_cast<Py_ssize_t>(v.item_size());
    b->bytes = static_cast<Py_ssize_t>(v.numel()) * b->item_size;
    b->read_only = !v.block->writable;
    b->rank = v.rank();
    b->format = (flags & kFormat) ? const_cast<char*>(format) : nullptr;
    b->shape = i->shape;
    b->strides = strided ? i->strides : nullptr;
    b->suboffsets = nullptr;
    b->internal = i;
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

void release_buffer(PyObject*, void* target) {
  delete static_cast<BufferInfo*>(static_cast<Buffer*>(target)->internal);
}

}  // namespace

void add_buffer_slots(std::vector<PyType_Slot>& slots) {
  slots.push_back({kGetBuffer, reinterpret_cast<void*>(get_buffer)});
  slots.push_back({kReleaseBuffer, reinterpret_cast<void*>(release_buffer)});
}

std::optional<View> imported(nb::handle object) {
  nb::ndarray<nb::ro, nb::device::cpu> a;
  bool writable = false;
  nb::ndarray<nb::device::cpu> w;
  if (nb::try_cast(object, w)) {
    writable = true;
    a = nb::ndarray<nb::ro, nb::device::cpu>(w);
  } else if (!nb::try_cast(object, a)) {
    PyErr_Clear();
    return std::nullopt;
  }
  const nb::dlpack::dtype t = a.dtype();
  const std::optional<DType> dtype = dtype_of_dl({t.code, t.bits, t.lanes});
  if (!dtype) return std::nullopt;
  Shape shape = Shape::filled(static_cast<int>(a.ndim()), 0), strides = shape;
  for (size_t i = 0; i < a.ndim(); ++i) {
    shape[static_cast<int>(i)] = static_cast<int64_t>(a.shape(i));
    strides[static_cast<int>(i)] = a.stride(i);
  }
  // Python's objects are released with the interpreter's lock, and not after its end.
  std::shared_ptr<void> keeps(new nb::ndarray<nb::ro, nb::device::cpu>(a), [](void* p) {
    if (!Py_IsInitialized()) return;
    nb::gil_scoped_acquire lock;
    delete static_cast<nb::ndarray<nb::ro, nb::device::cpu>*>(p);
  });
  return View(*dtype, shape, strides, const_cast<void*>(static_cast<const void*>(a.data())), writable,
              std::move(keeps));
}

void bind_exchange(nb::module_& m) {
  m.def("to_dlpack", to_dlpack, nb::arg("x"), nb::arg("stream").none(), nb::arg("max_version").none(),
        nb::arg("dl_device").none(), nb::arg("copy").none());
  m.def("from_capsule", [](nb::handle capsule) { return wrap(from_capsule(capsule)); });
  m.def("imported", [](nb::handle object) -> nb::object {
    std::optional<View> v = imported(object);
    return v ? wrap(std::move(*v)) : nb::none();
  });
}

}  // namespace freight::python
