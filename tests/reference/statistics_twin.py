"""Compares the statistics of tables with SciPy and statsmodels on random arguments.

    statistics_twin.py [--rounds 300] [--seed 0]

Builds experiments/lab/statistics into a library with `c++` (or CXX). Prints for each function how many numbers were
compared, the largest relative difference and the tolerance; exit code 1 if a difference is larger. Random results of
the other side (bootstraps) have a wider tolerance. Needs numpy, scipy, statsmodels."""

import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import statsmodels.api as sm
from scipy import integrate, optimize, special, stats
from statsmodels.stats import contingency_tables, multitest, power, proportion, weightstats

ROOT = pathlib.Path(__file__).resolve().parents[2]
D, I = ctypes.c_double, ctypes.c_int


def library():
    needs_products = {"few_shot.cpp", "zca.cpp"}
    sources = [p for room in ("metrics", "statistics") for p in (ROOT / "experiments/lab" / room).glob("*.cpp") if p.name not in needs_products]
    sources += [ROOT / "tests/reference/statistics_twin.cpp"]
    sources += [ROOT / "core/error.cpp", ROOT / "core/random.cpp"]
    out = pathlib.Path(tempfile.mkdtemp()) / "twin.so"
    flags = "-std=c++20 -O2 -march=native -shared -fPIC -pthread".split()
    subprocess.run([os.environ.get("CXX", "c++"), *flags, f"-I{ROOT}", *map(str, sources), "-o", str(out)], check=True)
    lib = ctypes.CDLL(str(out))
    for name in (
        "beta_quantile sd_range student student_two_sided student_quantile power smallest_gain clopper_pearson mcnemar best "
        "equivalence effect_size"
    ).split():
        getattr(lib, "twin_" + name).restype = D
    return lib


def array(values):
    values = np.ascontiguousarray(values, float)
    return values.ctypes.data_as(ctypes.POINTER(D)), values


class Sheet:
    def __init__(self):
        self.rows = {}

    def see(self, name, mine, theirs, allowed, scale=0.0):
        """Relative to the larger of |theirs| and `scale`."""
        mine, theirs = np.atleast_1d(np.asarray(mine, float)), np.atleast_1d(np.asarray(theirs, float))
        apart = np.abs(mine - theirs) / np.maximum(np.maximum(np.abs(theirs), scale), 1e-300)
        apart[mine == theirs] = 0
        worst = np.nanmax(apart) if not np.isnan(apart).any() else np.inf
        count, before, _ = self.rows.get(name, (0, 0.0, allowed))
        self.rows[name] = (count + mine.size, max(before, worst), allowed)

    def show(self):
        wrong = 0
        for name, (count, worst, allowed) in self.rows.items():
            wrong += worst > allowed
            print(f"{name:58} {count:6} numbers, furthest {worst:.1e}, allowed {allowed:.0e}{'  WRONG' if worst > allowed else ''}")
        return wrong


def distributions(lib, sheet, rs, rounds):
    for _ in range(rounds):
        a, b = np.exp(rs.uniform(-1, 8, 2))
        p = float(rs.uniform())
        sheet.see("its inverse: stats.beta.ppf", lib.twin_beta_quantile(D(p), D(a), D(b)), stats.beta.ppf(p, a, b), 1e-9)
        f = float(np.exp(rs.uniform(0, 7)))
        p = float(10 ** rs.uniform(-9, -0.01))
        high = (f / stats.chi2.ppf((1 - p) / 2, f)) ** 0.5
        sheet.see("range of an sd: stats.chi2.ppf", lib.twin_sd_range(D(p), D(f)), high, 1e-9)
        t = float(rs.standard_t(f) * np.exp(rs.uniform(0, 3)))
        sheet.see("Student's t: stats.t.sf", lib.twin_student(D(t), D(f)), stats.t.sf(t, f), 1e-10, 1e-14)
        sheet.see("two-sided: 2 stats.t.sf", lib.twin_student_two_sided(D(t), D(f)), 2 * stats.t.sf(abs(t), f), 1e-10)
        sheet.see("its quantile: stats.t.ppf", lib.twin_student_quantile(D(p), D(f)), stats.t.isf(p / 2, f), 1e-10, 1e-9)


def planning(lib, sheet, rs, rounds):
    def shown(effect, n, alpha):
        c, shift = stats.t.isf(alpha / 2, n - 1), effect * n**0.5
        return stats.nct.sf(c, n - 1, shift) + stats.nct.cdf(-c, n - 1, shift)

    for _ in range(rounds):
        n, effect, alpha = int(rs.randint(2, 40)), float(rs.uniform(0.02, 2)), float(10 ** rs.uniform(-3, -0.7))
        other = power.TTestPower().power(effect, n, alpha)
        if np.isfinite(other):  # stats.nct gives NaN for some large effects
            sheet.see("power: statsmodels TTestPower", lib.twin_power(D(effect), I(n), D(alpha)), other, 1e-8)
    for _ in range(max(rounds // 10, 5)):
        n, target = int(rs.randint(2, 40)), float(rs.uniform(0.5, 0.95))
        gain = lib.twin_smallest_gain(D(1), I(n), D(target))
        sheet.see("power at the smallest gain: stats.nct", shown(gain, n, 0.05), target, 1e-8)


def proportions(lib, sheet, rs, rounds):
    for _ in range(rounds):
        n = int(np.exp(rs.uniform(0, 10)))
        k, level = int(rs.randint(0, n + 1)), float(rs.uniform(0.5, 0.999))
        bounds = proportion.proportion_confint(k, n, 1 - level, method="beta")
        mine = [lib.twin_clopper_pearson(I(k), I(n), D(level), I(high)) for high in (0, 1)]
        sheet.see("Clopper-Pearson: statsmodels proportion_confint", mine, bounds, 1e-8, 1e-12)
        a, b = rs.randint(0, int(rs.choice([4, 40, 400])), 2)
        other = contingency_tables.mcnemar([[10, a], [b, 10]], exact=True).pvalue
        sheet.see("McNemar: statsmodels mcnemar(exact)", lib.twin_mcnemar(I(a), I(b)), 1 if a + b == 0 else other, 1e-9)
        p = rs.uniform(0, 0.2, rs.randint(1, 30))
        adjusted = np.zeros_like(p)
        lib.twin_holm(I(len(p)), array(p)[0], array(adjusted)[0])
        sheet.see("Holm: statsmodels multipletests", adjusted, multitest.multipletests(p, method="holm")[1], 1e-12)
        d, margin = rs.normal(0.1, 0.5, rs.randint(2, 12)), float(rs.uniform(0.1, 1))
        theirs = weightstats.DescrStatsW(d).ttost_mean(-margin, margin)[0]
        sheet.see("equivalence: statsmodels ttost_mean", lib.twin_equivalence(I(len(d)), array(d)[0], D(margin)), theirs, 1e-9, 1e-9)
        a, b = rs.normal(0, 1, rs.randint(2, 9)), rs.normal(0.5, rs.uniform(0.2, 5), rs.randint(2, 9))
        test = stats.ttest_ind(a, b, equal_var=False)
        bounds = test.confidence_interval(level)
        mine = np.zeros(4)
        lib.twin_welch(I(len(a)), array(a)[0], I(len(b)), array(b)[0], D(level), array(mine)[0])
        theirs = [a.mean() - b.mean(), (bounds.high - bounds.low) / 2, test.df, test.pvalue]
        sheet.see("Welch: stats.ttest_ind(equal_var=False)", mine, theirs, 1e-8, 1e-12)
        if len(d) > 2:  # the mean of noncentral t on m degrees is its shift over this factor
            m = len(d) - 1
            unbiased = d.mean() / d.std(ddof=1) / stats.nct.mean(m, 1.0)
            sheet.see("effect size: stats.nct.mean", lib.twin_effect_size(I(len(d)), array(d)[0]), unbiased, 1e-9, 1e-9)


def best(lib, sheet):
    for k in (2, 3, 7, 25, 300):
        errors, keep = array(np.ones(k))
        ordered = integrate.quad(lambda x: x * k * stats.norm.pdf(x) * stats.norm.cdf(x) ** (k - 1), -9, 9, epsabs=1e-12)[0]
        sheet.see("best by chance: quadrature of the largest normal", lib.twin_best(I(k), errors), 0.5**0.5 * ordered, 1e-8)


def prior(variances, freedoms):
    """Smyth (2004), section 6.2."""
    e = np.log(variances) - special.digamma(freedoms / 2) + np.log(freedoms / 2)
    spread = e.var(ddof=1) - special.polygamma(1, freedoms / 2).mean()
    if spread <= 0:
        return variances.mean(), np.inf
    half = optimize.brentq(lambda x: special.polygamma(1, x) - spread, 1e-6, 1e9, xtol=1e-14, rtol=1e-14)
    return np.exp(e.mean() + special.digamma(half) - np.log(half)), 2 * half


def moderated(variances, freedoms):
    s2, d0 = prior(variances, freedoms)
    most = min(4, (len(variances) - 1) / 2) * freedoms
    borrowed = np.minimum(d0 / 2, most)
    borrowed = borrowed * np.minimum(1, stats.f.sf(variances / s2, freedoms, borrowed) / 0.1)
    return (s2, d0), (borrowed * s2 + freedoms * variances) / (borrowed + freedoms), borrowed + freedoms


def variances(lib, sheet, rs, rounds):
    for i in range(rounds):
        k = int(rs.randint(2, 20))
        freedoms = rs.randint(1, 10, k).astype(float)
        own = rs.chisquare(freedoms) / freedoms * np.exp(rs.normal(0, 1.0 * (i % 3), k))
        out = np.zeros((k + 1, 2))
        lib.twin_moderated(I(k), array(own)[0], array(freedoms)[0], out.ctypes.data_as(ctypes.POINTER(D)))
        there, value, freedom = moderated(own, freedoms)
        sheet.see("prior variance: special.polygamma", out[0, 0], there[0], 1e-9)
        sheet.see("its degrees of freedom", 1 / out[0, 1], 1 / there[1], 1e-8, 1e-3)
        sheet.see("moderated variance and degrees: stats.f", out[1:], np.array([value, freedom]).T, 1e-8)


def table(rs, rows, seeds, missing):
    values = 75 + rs.uniform(-1, 1, (rows + 1, 1)) + 0.5 * rs.normal(size=seeds) + 0.3 * rs.normal(size=(rows + 1, seeds))
    if missing:
        values[rs.uniform(size=values.shape) < 0.25] = np.nan
    return values


def strip(lib, values, apart):
    rows, seeds = values.shape
    summary, out = np.zeros(4), np.zeros((rows - 1, 5))
    lib.twin_strip(I(rows - 1), I(seeds), array(values)[0], I(apart), array(summary)[0], out.ctypes.data_as(ctypes.POINTER(D)))
    return summary, out


def strips(lib, sheet, rs, rounds):
    for i in range(max(rounds // 10, 10)):
        values = table(rs, int(rs.randint(2, 8)), int(rs.randint(3, 9)), missing=i % 2 == 1)
        paired = [(row - values[0])[~np.isnan(row - values[0])] for row in values[1:]]
        if not all(len(differences) > 1 for differences in paired):
            continue
        _, own = strip(lib, values, True)
        adjusted = multitest.multipletests([stats.ttest_1samp(d, 0).pvalue for d in paired], method="holm")[1]
        sheet.see("p of rows apart: ttest_1samp, multipletests", own[:, 4], adjusted, 1e-9)
        summary, out = strip(lib, values, False)
        n = np.array([len(d) for d in paired])
        own = np.array([d.var(ddof=1) for d in paired])
        (s2, _), value, freedom = moderated(own, n - 1.0)
        if len(paired) > 1:
            error = np.sqrt(value / n)
            sheet.see("standard errors of a strip", out[:, 1], error, 1e-9)
            p = 2 * stats.t.sf(np.abs(out[:, 0]) / error, freedom)
            sheet.see("its p: stats.t, multipletests", out[:, 4], multitest.multipletests(p, method="holm")[1], 1e-8, 1e-6)
            sheet.see("its typical sd", summary[0], np.sqrt(s2), 1e-9)
        if not np.isnan(values).any():
            within = ((values - values.mean(1, keepdims=True)) ** 2).sum() / (values.shape[0] * (values.shape[1] - 1))
            left = sm.OLS(values.ravel(), np.hstack([np.kron(np.eye(len(values)), np.ones((values.shape[1], 1))),
                                                     np.tile(np.eye(values.shape[1])[:, 1:], (len(values), 1))])).fit()
            sheet.see("correlation of common draws: statsmodels OLS", summary[3], 1 - left.mse_resid / within, 1e-9, 1e-3)
    values = table(rs, 5, 6, missing=False)
    (sd, freedom, borrowing, _), _ = strip(lib, values, False)
    for gain in (0.3, 0.5, 1.0):
        n = lib.twin_seeds_needed(I(5), I(6), array(values)[0], D(gain))

        def shown(seeds):
            f = borrowing * (seeds - 1)
            c, shift = stats.t.isf(0.05 / 10, f), gain / sd * np.sqrt(seeds)
            return stats.nct.sf(c, f, shift) + stats.nct.cdf(-c, f, shift)

        sheet.see("seeds needed: stats.nct, enough", float(shown(n) >= 0.8), 1, 1e-12)
        sheet.see("seeds needed: stats.nct, one fewer is not", float(n == 2 or shown(n - 1) < 0.8), 1, 1e-12)


def pairs(lib, sheet, rs, rounds):
    """Every pair of rows, with all seeds; the k - 1 independent differences of k rows limit what is borrowed."""
    for i in range(max(rounds // 10, 10)):
        values = table(rs, int(rs.randint(2, 8)), int(rs.randint(3, 9)), missing=False)
        k, n = values.shape
        d = np.array([values[b] - values[a] for b in range(1, k) for a in range(b)])
        own, freedoms = d.var(axis=1, ddof=1), np.full(len(d), n - 1.0)
        s2, d0 = prior(own, freedoms)
        borrowed = np.minimum(d0 / 2, min(4, (k - 2) / 2) * freedoms)
        borrowed = borrowed * np.minimum(1, stats.f.sf(own / s2, freedoms, borrowed) / 0.1)
        error, freedom = np.sqrt((borrowed * s2 + freedoms * own) / (borrowed + freedoms) / n), borrowed + freedoms
        out = np.zeros((len(d), 3))
        lib.twin_pairs(I(k - 1), I(n), array(values)[0], out.ctypes.data_as(ctypes.POINTER(D)))
        p = multitest.multipletests(2 * stats.t.sf(np.abs(d.mean(1)) / error, freedom), method="holm")[1]
        sheet.see("pairs: their differences", out[:, 0], d.mean(1), 1e-9, 1e-9)
        sheet.see("pairs: Bonferroni's half widths, stats.t", out[:, 1], stats.t.isf(0.025 / len(d), freedom) * error, 1e-8)
        sheet.see("pairs: their p, multipletests", out[:, 2], p, 1e-8, 1e-6)


def bootstraps(lib, sheet, rs):
    seeds, images = 6, 3000
    hard = rs.normal(0.8, 1, images)
    draw = lambda shift: (hard + shift + 0.05 * rs.normal(size=(seeds, 1)) + rs.normal(size=(seeds, images)) > 0).astype(np.uint8)
    row, base = draw(0.05), draw(0.0)
    for name, scores, other in (("mean", row.astype(float), None), ("gain", row.astype(float) - base, base)):
        out = np.zeros(4)
        pointers = [ctypes.c_void_p(right.ctypes.data) if right is not None else None for right in (row, other)]
        lib.twin_bootstrap(I(seeds), I(images), *pointers, I(4000), array(out)[0])
        error = scores.mean(1).std(ddof=1) / np.sqrt(seeds)
        drawn = [scores[rs.randint(seeds, size=seeds)].mean(0)[rs.randint(images, size=images)].mean() for _ in range(4000)]
        theirs = [scores.mean(), np.sqrt(np.var(drawn, ddof=1) + error**2 / seeds), error, scores.mean(0).std(ddof=1) / np.sqrt(images)]
        sheet.see(f"bootstrap of a {name}: estimate and both parts", out[[0, 2, 3]], np.array(theirs)[[0, 2, 3]], 1e-9)
        sheet.see(f"bootstrap of a {name}: its error, NumPy (random)", out[1], theirs[1], 0.06)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    lib, sheet, rs = library(), Sheet(), np.random.RandomState(arguments.seed)
    distributions(lib, sheet, rs, arguments.rounds)
    planning(lib, sheet, rs, arguments.rounds)
    proportions(lib, sheet, rs, arguments.rounds)
    best(lib, sheet)
    variances(lib, sheet, rs, arguments.rounds)
    strips(lib, sheet, rs, arguments.rounds)
    pairs(lib, sheet, rs, arguments.rounds)
    bootstraps(lib, sheet, rs)
    sys.exit(1 if sheet.show() else 0)


if __name__ == "__main__":
    main()
