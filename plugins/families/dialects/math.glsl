/* math.glsl - C's functions on floats, which GLSL has not or not to the last digits
 * (Vulkan allows sin an error of 2^-11). Range reductions and polynomials as in the
 * Cephes library (S. Moshier) and in FreeBSD's msun; those of erf and erfc are
 * Chebyshev fits. `precise`: no contraction, the low parts depend on it. */

/* The nearest integer; ties to even. */
float f_rint(float x) {
  precise float big = abs(x) + 8388608.0, near = big - 8388608.0;
  if (!(abs(x) < 8388608.0)) return x;
  return uintBitsToFloat(floatBitsToUint(near) | (floatBitsToUint(x) & 0x80000000u));
}

/* x times 2^n, in two steps so that neither overflows. */
float scale2(float x, int n) {
  int half_n = n / 2;
  x = x * uintBitsToFloat(uint(half_n + 127) << 23);
  return x * uintBitsToFloat(uint(n - half_n + 127) << 23);
}

/* exp(x + low) times 2^shift, |low| small beside 1 and |shift| too */
float exp_of(float x, float low, int shift) {
  if (x != x) return x;
  if (x > 100.0) return INF;
  if (x < -104.0) return 0.0;
  float n = f_rint(x * 1.44269504088896341);
  precise float r = x - n * 0.693359375;
  r = r - n * -2.12194440e-4;
  r = r + low;
  float p = ((((1.9875691500e-4 * r + 1.3981999507e-3) * r + 8.3334519073e-3) * r +
              4.1665795894e-2) * r + 1.6666665459e-1) * r + 5.0000001201e-1;
  return scale2(p * r * r + r + 1.0, int(n) + shift);
}
float f_exp(float x) {
  return exp_of(x, 0.0, 0);
}

/* exp(x) - 1, which keeps its digits near 0 */
float f_expm1(float x) {
  if (x != x || x == 0.0) return x; /* -0, too */
  if (x > 18.0) return f_exp(x);
  if (x < -18.0) return -1.0;
  float n = f_rint(x * 1.44269504088896341);
  precise float r = x - n * 0.693359375;
  r = r - n * -2.12194440e-4;
  float p = ((((1.9875691500e-4 * r + 1.3981999507e-3) * r + 8.3334519073e-3) * r +
              4.1665795894e-2) * r + 1.6666665459e-1) * r + 5.0000001201e-1;
  float power = uintBitsToFloat(uint(int(n) + 127) << 23);
  return power * (p * r * r + r) + (power - 1.0);
}

/* x = m times 2^e, m in [sqrt(1/2), sqrt(2)); x positive and finite */
float split2(float x, out int e) {
  uint bits = floatBitsToUint(x);
  e = 0;
  if (bits < 0x00800000u) {
    /* read as an integer: the arithmetic may flush what is so small */
    float whole = float(bits);
    bits = floatBitsToUint(whole);
    e = -149;
  }
  uint from = bits - 0x3f3504f3u;
  e += int(from) >> 23;
  return uintBitsToFloat((from & 0x007fffffu) + 0x3f3504f3u);
}

/* log(1 + f) - f + f^2 / 2 */
float log_rest(float f, out float half_square) {
  float s = f / (2.0 + f), z = s * s, w = z * z;
  float r = z * (0.66666662693 + w * 0.28498786688) + w * (0.40000972152 + w * 0.24279078841);
  half_square = 0.5 * f * f;
  return s * (half_square + r);
}

float f_log(float x) {
  int e;
  float half_square;
  if (x != x || x < 0.0) return NOT_A_NUMBER;
  if ((floatBitsToUint(x) & 0x7fffffffu) == 0u) return -INF;
  if (x == INF) return x;
  float f = split2(x, e) - 1.0, k = float(e);
  float rest = log_rest(f, half_square);
  return rest + k * 9.0580006145e-06 - half_square + f + k * 6.9313812256e-01;
}

float f_log1p(float x) {
  precise float u = 1.0 + x;
  if (u == 1.0 || x == INF) return x;
  if (!(u > 0.0)) return u == 0.0 ? -INF : NOT_A_NUMBER;
  precise float lost = x > 1.0 ? 1.0 - (u - x) : x - (u - 1.0);
  return f_log(u) + lost / u;
}

/* ---- trigonometry ---- */

/* x times 2/pi: the quadrant, and what is left as an angle in [-pi/4, pi/4] */
float quadrant_far(float x, out int quadrant) {
  const uint two_over_pi[6] = uint[6](0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u,
                                      0x36d8a566u, 0x4f10e410u);
  uint bits = floatBitsToUint(x), m = (bits & 0x007fffffu) << 8 | 0x80000000u;
  int e = int(bits >> 23 & 0xffu) - 126, at = e >> 5, shift = e & 31;
  uint top = at > 0 ? two_over_pi[at - 1] : 0u, middle = two_over_pi[at];
  uint low = two_over_pi[at + 1], below = two_over_pi[at + 2];
  if (shift != 0) {
    top = top << shift | middle >> (32 - shift);
    middle = middle << shift | low >> (32 - shift);
    low = low << shift | below >> (32 - shift);
  }
  uint carry, part, p0, p1;
  umulExtended(m, low, carry, part);
  umulExtended(m, middle, p1, p0);
  uint sum = p0 + carry;
  p1 = p1 + (sum < p0 ? 1u : 0u);
  p0 = sum;
  p1 = p1 + m * top;
  quadrant = int(p1 >> 30);
  p1 = p1 & 0x3fffffffu;
  bool less = (p1 & 0x20000000u) != 0u;
  if (less) { /* to the nearest quadrant: 2^62 less, as a magnitude */
    quadrant++;
    p0 = ~p0 + 1u;
    p1 = 0x3fffffffu - p1 + (p0 == 0u ? 1u : 0u);
  }
  float r = (float(p1) * 4294967296.0 + float(p0)) * 3.4061215800e-19; /* pi/2 2^-62 */
  if (less) r = -r;
  if (x < 0.0) {
    r = -r;
    quadrant = -quadrant;
  }
  return r;
}

float quadrant_of(float x, out int quadrant) {
  if (abs(x) > 2000.0) return quadrant_far(x, quadrant);
  float q = f_rint(x * 0.636619772367581343);
  precise float r = x - q * 1.5703125;
  r = r - q * 4.837512969970703125e-4;
  r = r - q * 7.549533620476722717285156e-8;
  r = r - q * 2.56334415159e-12;
  quadrant = int(q);
  return r;
}

float sin_near(float r) {
  float z = r * r;
  return ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * r + r;
}
float cos_near(float r) {
  float z = r * r;
  return ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z -
         0.5 * z + 1.0;
}

float f_sin(float x) {
  int q;
  if (!(abs(x) < INF)) return NOT_A_NUMBER;
  if (x == 0.0) return x; /* -0, too */
  float r = quadrant_of(x, q);
  float y = (q & 1) != 0 ? cos_near(r) : sin_near(r);
  return (q & 2) != 0 ? -y : y;
}
float f_cos(float x) {
  int q;
  if (!(abs(x) < INF)) return NOT_A_NUMBER;
  float r = quadrant_of(x, q);
  float y = (q & 1) != 0 ? sin_near(r) : cos_near(r);
  return ((q + 1) & 2) != 0 ? -y : y;
}
float f_tan(float x) {
  int q;
  if (!(abs(x) < INF)) return NOT_A_NUMBER;
  float r = quadrant_of(x, q), z = r * r;
  float t = (((((9.38540185543e-3 * z + 3.11992232697e-3) * z + 2.44301354525e-2) * z +
               5.34112807005e-2) * z + 1.33387994085e-1) * z + 3.33331568548e-1) * z * r + r;
  return (q & 1) != 0 ? -1.0 / t : t;
}

float asin_near(float x) {
  float z = x * x;
  return ((((4.2163199048e-2 * z + 2.4181311049e-2) * z + 4.5470025998e-2) * z +
           7.4953002686e-2) * z + 1.6666752422e-1) * z * x + x;
}
float f_asin(float x) {
  float a = abs(x);
  if (!(a <= 1.0)) return NOT_A_NUMBER;
  if (a <= 0.5) return asin_near(x);
  float y = 1.57079632679 - 2.0 * asin_near(sqrt(0.5 * (1.0 - a)));
  return x < 0.0 ? -y : y;
}
float f_acos(float x) {
  if (!(abs(x) <= 1.0)) return NOT_A_NUMBER;
  if (x > 0.5) return 2.0 * asin_near(sqrt(0.5 * (1.0 - x)));
  if (x < -0.5) return 3.14159265359 - 2.0 * asin_near(sqrt(0.5 * (1.0 + x)));
  return 1.57079632679 - asin_near(x);
}
float f_atan(float x) {
  float a = abs(x), y = 0.0;
  if (x != x) return x;
  if (a > 2.414213562373095) {
    y = 1.57079632679;
    a = -1.0 / a;
  } else if (a > 0.4142135623730950) {
    y = 0.785398163397;
    a = (a - 1.0) / (a + 1.0);
  }
  float z = a * a;
  y += (((8.05374449538e-2 * z - 1.38776856032e-1) * z + 1.99777106478e-1) * z -
        3.33329491539e-1) * z * a + a;
  return x < 0.0 ? -y : y;
}

/* ---- hyperbolic ---- */

float f_sinh(float x) {
  float a = abs(x), z = x * x;
  if (a < 1.0)
    return ((2.03721912945e-4 * z + 8.33028376239e-3) * z + 1.66667160211e-1) * z * x + x;
  float e = exp_of(a, 0.0, -1), y = e - 0.25 / e;
  return x < 0.0 ? -y : y;
}
float f_cosh(float x) {
  float e = exp_of(abs(x), 0.0, -1);
  return e + 0.25 / e;
}
float f_tanh(float x) {
  float a = abs(x), z = x * x;
  if (x == 0.0) return x;
  if (a < 0.625)
    return ((((-5.70498872745e-3 * z + 2.06390887954e-2) * z - 5.37397155531e-2) * z +
             1.33314422036e-1) * z - 3.33332819422e-1) * z * x + x;
  float y = 1.0 - 2.0 / (f_exp(2.0 * a) + 1.0);
  return x < 0.0 ? -y : y;
}
float f_atan2(float y, float x) {
  float a = abs(x), b = abs(y), r;
  if (x != x || y != y) return NOT_A_NUMBER;
  bool left = floatBitsToUint(x) >> 31 != 0u;
  if (a == b)
    r = a == 0.0 ? 0.0 : 0.785398163397;
  else
    r = b > a ? 1.57079632679 - f_atan(a / b) : f_atan(b / a);
  if (left) r = 3.14159265359 - r;
  return floatBitsToUint(y) >> 31 != 0u ? -r : r;
}
float f_asinh(float x) {
  float a = abs(x), y;
  if (a > 4096.0)
    y = f_log(a) + 0.69314718056;
  else
    y = f_log1p(a + a * a / (1.0 + sqrt(a * a + 1.0)));
  return x < 0.0 ? -y : a == 0.0 ? x : y;
}
float f_acosh(float x) {
  float t = x - 1.0;
  if (x > 4096.0) return f_log(x) + 0.69314718056;
  return x < 1.0 ? NOT_A_NUMBER : f_log1p(t + sqrt(2.0 * t + t * t));
}
float f_atanh(float x) {
  float a = abs(x);
  float y = 0.5 * f_log1p(2.0 * a / (1.0 - a));
  if (a > 1.0) return NOT_A_NUMBER;
  return x < 0.0 ? -y : a == 0.0 ? x : y;
}

/* ---- the error function ---- */

/* erfc of x at 0.5 and above: exp(-x^2) times erfcx(x), of which (1 + 2 x) is taken
 * out; x is cut, so that its square is exact. */
float erfc_far(float x) {
  if (x > 10.2) return 0.0;
  float t = (x - 2.0) / (x + 2.0);
  float p = (((((((((0.0002373287416 * t - 0.0003220756739) * t - 0.001488298147) * t +
                   0.001224188477) * t + 0.008732989123) * t - 0.008026362922) * t -
                0.05422134287) * t + 0.1640507602) * t - 0.1660303379) * t - 0.09276381648) * t +
            1.276978381;
  float cut = uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u);
  return exp_of(-cut * cut, -(x - cut) * (x + cut), 0) * (p / (1.0 + 2.0 * x));
}
float erf_near(float x) {
  float z = x * x;
  return (((((8.212780533e-5 * z - 0.0008105054511) * z + 0.005197684914) * z -
            0.02685804248) * z + 0.1128367104) * z - 0.3761263215) * z * x + 1.128379166 * x;
}
float f_erf(float x) {
  float a = abs(x);
  if (x != x) return x;
  if (a < 0.92) return erf_near(x);
  float y = 1.0 - erfc_far(a);
  return x < 0.0 ? -y : y;
}
float f_erfc(float x) {
  if (x != x) return x;
  if (abs(x) < 0.5) return 1.0 - erf_near(x);
  return x > 0.0 ? erfc_far(x) : 2.0 - erfc_far(-x);
}

/* ---- powers ---- */

/* x to the y, x positive and finite, y finite: log(x) is kept in two floats. */
float pow_of(float x, float y) {
  int e;
  float half_square;
  float f = split2(x, e) - 1.0, k = float(e);
  float rest = log_rest(f, half_square);
  /* f - f^2 / 2 + rest + k ln 2, largest first */
  float cut = uintBitsToFloat(floatBitsToUint(f) & 0xfffff000u);
  precise float square = 0.5 * cut * cut;                 /* exact */
  precise float less = 0.5 * (f - cut) * (f + cut);       /* f^2 / 2 - square */
  precise float big = k * 0.693359375;                    /* exact */
  precise float a = big + f, a_low = abs(big) > abs(f) ? f - (a - big) : big - (a - f);
  precise float b = a - square, b_low = (a - b) - square;
  precise float tail = ((rest - less) + (a_low + b_low)) + k * -2.12194440054690583e-4;
  precise float high = b + tail, low = tail - (high - b);
  /* y times it */
  float y_cut = uintBitsToFloat(floatBitsToUint(y) & 0xfffff000u);
  float h_cut = uintBitsToFloat(floatBitsToUint(high) & 0xfffff000u);
  precise float product = y * high;
  precise float error = ((y_cut * h_cut - product) + y_cut * (high - h_cut) +
                         (y - y_cut) * h_cut) + (y - y_cut) * (high - h_cut);
  if (!(abs(product) < 200.0)) return exp_of(product, 0.0, 0);
  return exp_of(product, error + y * low, 0);
}

float f_pow(float x, float y) {
  float a = abs(x);
  if (y == 0.0 || x == 1.0) return 1.0;
  if (x != x || y != y) return NOT_A_NUMBER;
  bool whole = a == a && (abs(y) >= 8388608.0 || f_rint(y) == y);
  bool odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
  float result;
  if (abs(y) == INF)
    result = a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? INF : 0.0;
  else if (a == 0.0 || a == INF)
    result = (a == 0.0) == (y > 0.0) ? 0.0 : INF;
  else if (x < 0.0 && !whole)
    result = NOT_A_NUMBER;
  else
    result = pow_of(a, y);
  return odd && (floatBitsToUint(x) >> 31) != 0u ? -result : result;
}

/* of m = |x| / 8^k in [1, 8): a start of few bits, and three steps of Newton */
float f_cbrt(float x) {
  uint bits = floatBitsToUint(x) & 0x7fffffffu;
  if (bits >= 0x7f800000u || bits == 0u) return x;
  bool tiny = bits < 0x00800000u; /* a subnormal is its bits times 2^-149 */
  float a = tiny ? 2.0 * float(bits) : uintBitsToFloat(bits);
  int e = int(floatBitsToUint(a) >> 23) - 127;
  int k = e >= 0 ? e / 3 : -((2 - e) / 3);
  float m = a * uintBitsToFloat(uint(127 - 3 * (k / 2)) << 23) *
            uintBitsToFloat(uint(127 - 3 * (k - k / 2)) << 23);
  float y = 0.756 + m * (0.2716 - m * 0.0146);
  for (int i = 0; i < 4; i++) {
    precise float square = y * y;
    y -= (y * square - m) / (3.0 * square);
  }
  y *= uintBitsToFloat(uint(127 + (tiny ? k - 50 : k)) << 23);
  return floatBitsToUint(x) >> 31 != 0u ? -y : y;
}

/* ---- the plain ones, NaN as in C ---- */

float f_fabs(float x) {
  return uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu);
}
float f_floor(float x) {
  return floor(x);
}
float f_ceil(float x) {
  return ceil(x);
}
float f_sqrt(float x) {
  return sqrt(x);
}
float f_fmax(float x, float y) {
  return x > y || y != y ? x : y;
}
float f_fmin(float x, float y) {
  return x < y || y != y ? x : y;
}

/* Of mantissas as integers, bit by bit: exact, subnormals included. */
float f_fmod(float x, float y) {
  uint ux = floatBitsToUint(x) & 0x7fffffffu, uy = floatBitsToUint(y) & 0x7fffffffu;
  if (uy == 0u || ux >= 0x7f800000u || uy > 0x7f800000u) return NOT_A_NUMBER;
  if (ux < uy) return x;
  int ex = int(ux >> 23), ey = int(uy >> 23);
  uint mx = ux & 0x7fffffu, my = uy & 0x7fffffu;
  if (ex > 0)
    mx = mx | 0x800000u;
  else
    ex = 1;
  if (ey > 0)
    my = my | 0x800000u;
  else
    ey = 1;
  mx = mx % my;
  for (; ex > ey; ex--)
    mx = (mx << 1) % my;
  while (mx != 0u && mx < 0x800000u && ey > 1) {
    mx = mx << 1;
    ey--;
  }
  if (mx >= 0x800000u) mx = (mx & 0x7fffffu) | uint(ey) << 23;
  return uintBitsToFloat(mx | (floatBitsToUint(x) & 0x80000000u));
}
