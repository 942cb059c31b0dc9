#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace symccl::test {
namespace {

#if defined(__SIZEOF_FLOAT128__)
using Quad = __float128;
#else
using Quad = long double;
#endif

// Elements as a kernel's accumulator sees them. Real is its type.

template <class T>
struct Plain {
  using Real = T;
  static Real read(const void* from, std::size_t index) {
    T value;
    std::memcpy(&value, static_cast<const char*>(from) + index * sizeof value, sizeof value);
    return value;
  }
  static void write(std::vector<char>& to, std::size_t index, Real value) {
    if (value != value) value = std::numeric_limits<T>::quiet_NaN();
    std::memcpy(to.data() + index * sizeof value, &value, sizeof value);
  }
  static Real round(Real value) { return value; }
};

template <const SmallFormat& kFormat>
struct Small {
  using Real = float;
  static Real read(const void* from, std::size_t index) {
    return decode(kFormat, Plain<std::uint16_t>::read(from, index));
  }
  static void write(std::vector<char>& to, std::size_t index, Real value) {
    Plain<std::uint16_t>::write(to, index, encode(kFormat, value));
  }
  static Real round(Real value) { return decode(kFormat, encode(kFormat, value)); }
};

template <class Real>
Real add(Real a, Real b) {
  return static_cast<Real>(static_cast<Quad>(a) + static_cast<Quad>(b));
}
template <class Real>
Real subtract(Real a, Real b) {
  return static_cast<Real>(static_cast<Quad>(a) - static_cast<Quad>(b));
}
template <class Real>
Real multiply(Real a, Real b) {
  return static_cast<Real>(static_cast<Quad>(a) * static_cast<Quad>(b));
}
template <class Real>
Real divide(Real a, std::size_t b) {
  return static_cast<Real>(static_cast<Quad>(a) / static_cast<Quad>(b));
}

template <class Real>
Real lesser(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class Real>
Real greater(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<Real>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

template <class Element>
std::vector<char> floating(ReduceOp op, const std::vector<const void*>& sources, const double* factors,
                           std::size_t count, std::size_t elementBytes) {
  using Real = typename Element::Real;
  std::vector<char> result(count * elementBytes);
  const auto scaled = [&](std::size_t source, std::size_t index) {
    const Real value = Element::read(sources[source], index);
    return op == ReduceOp::premulSum ? Element::round(multiply(value, static_cast<Real>(factors[source]))) : value;
  };
  for (std::size_t index = 0; index < count; ++index) {
    Real total = scaled(0, index);
    for (std::size_t source = 1; source < sources.size(); ++source) {
      const Real next = scaled(source, index);
      switch (op) {
        case ReduceOp::product:
          total = multiply(total, next);
          break;
        case ReduceOp::min:
          total = lesser(total, next);
          break;
        case ReduceOp::max:
          total = greater(total, next);
          break;
        default:
          total = add(total, next);
          break;
      }
    }
    Element::write(result, index, op == ReduceOp::average ? divide(total, sources.size()) : total);
  }
  return result;
}

template <class Real>
std::vector<char> complexProduct(const std::vector<const void*>& sources, std::size_t count) {
  using Element = Plain<Real>;
  std::vector<char> result(count * 2 * sizeof(Real));
  for (std::size_t index = 0; index < 2 * count; index += 2) {
    Real a = Element::read(sources[0], index), b = Element::read(sources[0], index + 1);
    for (std::size_t source = 1; source < sources.size(); ++source) {
      const Real c = Element::read(sources[source], index), d = Element::read(sources[source], index + 1);
      const Real real = subtract(multiply(a, c), multiply(b, d));
      const Real imaginary = add(multiply(b, c), multiply(a, d));
      a = real, b = imaginary;
    }
    Element::write(result, index, a);
    Element::write(result, index + 1, b);
  }
  return result;
}

template <class Real>
std::vector<char> complex(ReduceOp op, const std::vector<const void*>& sources, const double* factors,
                          std::size_t count) {
  if (op == ReduceOp::product) return complexProduct<Real>(sources, count);
  return floating<Plain<Real>>(op, sources, factors, 2 * count, sizeof(Real));
}

template <class T>
std::vector<char> integer(ReduceOp op, const std::vector<const void*>& sources, std::size_t count) {
  using Wide = __int128;
  using Wrap = unsigned __int128;
  std::vector<char> result(count * sizeof(T));
  for (std::size_t index = 0; index < count; ++index) {
    T total = Plain<T>::read(sources[0], index);
    for (std::size_t source = 1; source < sources.size(); ++source) {
      const T next = Plain<T>::read(sources[source], index);
      const Wrap a = static_cast<Wrap>(total), b = static_cast<Wrap>(next);
      switch (op) {
        case ReduceOp::product:
          total = static_cast<T>(a * b);
          break;
        case ReduceOp::min:
          total = next < total ? next : total;
          break;
        case ReduceOp::max:
          total = next > total ? next : total;
          break;
        case ReduceOp::bitAnd:
          total = static_cast<T>(a & b);
          break;
        case ReduceOp::bitOr:
          total = static_cast<T>(a | b);
          break;
        case ReduceOp::bitXor:
          total = static_cast<T>(a ^ b);
          break;
        default:
          total = static_cast<T>(a + b);
          break;
      }
    }
    if (op == ReduceOp::average) total = static_cast<T>(static_cast<Wide>(total) / static_cast<Wide>(sources.size()));
    std::memcpy(result.data() + index * sizeof(T), &total, sizeof(T));
  }
  return result;
}

std::vector<char> boolean(ReduceOp op, const std::vector<const void*>& sources, std::size_t count) {
  std::vector<char> result(count);
  for (std::size_t index = 0; index < count; ++index) {
    std::size_t trues = 0;
    for (const void* source : sources) trues += static_cast<const char*>(source)[index] != 0;
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::max:
      case ReduceOp::bitOr:
        result[index] = trues > 0;
        break;
      case ReduceOp::bitXor:
        result[index] = trues % 2;
        break;
      default:
        result[index] = trues == sources.size();
        break;
    }
  }
  return result;
}

/// An element of a floating format of up to 64 bits: the kind is drawn, then the bits.
std::uint64_t drawFloating(std::mt19937_64& random, int exponentBits, int fractionBits) {
  const std::uint64_t fractionMask = (std::uint64_t{1} << fractionBits) - 1;
  const std::uint64_t infinity = ((std::uint64_t{1} << exponentBits) - 1) << fractionBits;
  const std::uint64_t one = infinity / 2 & ~fractionMask;
  const std::uint64_t bits = random(), fraction = bits & fractionMask;
  const std::uint64_t sign = (bits >> 63) << (exponentBits + fractionBits);
  const std::uint64_t special[] = {0,
                                   1,
                                   fractionMask,
                                   fractionMask + 1,
                                   one,
                                   infinity - 1,
                                   infinity,
                                   infinity | 1,
                                   infinity | fractionMask,
                                   infinity | (fractionMask + 1) / 2};
  switch (random() % 8) {
    case 0:
      return sign | special[random() % std::size(special)];
    case 1:
      return sign | fraction;
    case 2:
      return sign | (bits & (infinity | fractionMask));
    default:
      return sign | ((one + ((random() % 8) << fractionBits) - (std::uint64_t{4} << fractionBits)) + fraction);
  }
}

std::vector<char> floatingPattern(std::size_t count, std::uint64_t seed, int exponentBits, int fractionBits) {
  const std::size_t bytes = static_cast<std::size_t>(1 + exponentBits + fractionBits) / 8;
  std::mt19937_64 random(seed);
  std::vector<char> result(count * bytes);
  for (std::size_t index = 0; index < count; ++index) {
    const std::uint64_t bits = drawFloating(random, exponentBits, fractionBits);
    std::memcpy(result.data() + index * bytes, &bits, bytes);
  }
  return result;
}

}  // namespace

float decode(SmallFormat format, std::uint16_t bits) {
  const int bias = (1 << (format.exponentBits - 1)) - 1;
  const int exponent = bits >> format.fractionBits & ((1 << format.exponentBits) - 1);
  const int fraction = bits & ((1 << format.fractionBits) - 1);
  double magnitude;
  if (exponent == (1 << format.exponentBits) - 1) {
    magnitude = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, 1 - bias - format.fractionBits);
  } else {
    magnitude = std::ldexp(fraction + (1 << format.fractionBits), exponent - bias - format.fractionBits);
  }
  return static_cast<float>(bits >> 15 ? -magnitude : magnitude);
}

std::uint16_t encode(SmallFormat format, float value) {
  const int bias = (1 << (format.exponentBits - 1)) - 1;
  const int one = 1 << format.fractionBits;
  const int infinity = ((1 << format.exponentBits) - 1) * one;
  if (std::isnan(value)) return static_cast<std::uint16_t>(infinity | one / 2);
  const int sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | infinity);
  // In units of the last place that this magnitude has; a result of 2 * one belongs to the next exponent, as it should.
  const int exponent = magnitude == 0 ? 1 - bias : std::max(std::ilogb(magnitude), 1 - bias);
  const int units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, format.fractionBits - exponent)));
  const int bits = units + (exponent + bias - 1) * one;
  return static_cast<std::uint16_t>(sign | std::min(bits, infinity));
}

std::vector<char> expectedReduction(DataType type, ReduceOp op, const std::vector<const void*>& sources,
                                    const double* factors, std::size_t count) {
  switch (type) {
    case DataType::boolean:
      return boolean(op, sources, count);
    case DataType::int8:
      return integer<std::int8_t>(op, sources, count);
    case DataType::uint8:
      return integer<std::uint8_t>(op, sources, count);
    case DataType::int16:
      return integer<std::int16_t>(op, sources, count);
    case DataType::uint16:
      return integer<std::uint16_t>(op, sources, count);
    case DataType::int32:
      return integer<std::int32_t>(op, sources, count);
    case DataType::uint32:
      return integer<std::uint32_t>(op, sources, count);
    case DataType::int64:
      return integer<std::int64_t>(op, sources, count);
    case DataType::uint64:
      return integer<std::uint64_t>(op, sources, count);
    case DataType::float16:
      return floating<Small<kFloat16>>(op, sources, factors, count, 2);
    case DataType::bfloat16:
      return floating<Small<kBfloat16>>(op, sources, factors, count, 2);
    case DataType::float32:
      return floating<Plain<float>>(op, sources, factors, count, 4);
    case DataType::float64:
      return floating<Plain<double>>(op, sources, factors, count, 8);
    case DataType::complex64:
      return complex<float>(op, sources, factors, count);
    case DataType::complex128:
      return complex<double>(op, sources, factors, count);
    default:
      return {};
  }
}

std::vector<char> randomBits(std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<char> result(bytes);
  for (char& byte : result) byte = static_cast<char>(random());
  return result;
}

std::vector<char> pattern(DataType type, std::size_t count, std::uint64_t seed) {
  switch (type) {
    case DataType::float16:
      return floatingPattern(count, seed, 5, 10);
    case DataType::bfloat16:
      return floatingPattern(count, seed, 8, 7);
    case DataType::float32:
      return floatingPattern(count, seed, 8, 23);
    case DataType::float64:
      return floatingPattern(count, seed, 11, 52);
    case DataType::complex64:
      return floatingPattern(2 * count, seed, 8, 23);
    case DataType::complex128:
      return floatingPattern(2 * count, seed, 11, 52);
    case DataType::boolean: {
      std::vector<char> bytes = randomBits(count, seed);
      for (char& byte : bytes) byte = static_cast<char>(byte % 3);
      return bytes;
    }
    default:
      return randomBits(count * sizeOf(type), seed);
  }
}

std::vector<TypeAndOp> reducibleCases() {
  std::vector<TypeAndOp> cases;
  for (int type = 0; type < kDataTypes; ++type) {
    for (int op = 0; op < kReduceOps; ++op) {
      const TypeAndOp both{static_cast<DataType>(type), static_cast<ReduceOp>(op)};
      if (reducible(both.type, both.op)) cases.push_back(both);
    }
  }
  return cases;
}

}  // namespace symccl::test
