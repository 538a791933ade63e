"""Compares the statistics of tables with SciPy and statsmodels on random arguments.

    statistics_twin.py [--rounds 300] [--seed 0]

Builds experiments/statistics into a library with `c++` (or CXX). Prints for each function how many numbers were
compared, the largest relative difference and the tolerance; exit code 1 if a difference is larger. Random results of
the other side (SciPy's multivariate t and Dunnett test, bootstraps) have a wider tolerance. Needs numpy, scipy,
statsmodels."""

import argparse
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import statsmodels.api as sm
from scipy import integrate, special, stats
from statsmodels.stats import contingency_tables, multitest, power, proportion, weightstats

ROOT = pathlib.Path(__file__).resolve().parents[2]
D, I = ctypes.c_double, ctypes.c_int


def library():
    sources = [*(ROOT / "experiments/statistics").glob("*.cpp"), ROOT / "tests/reference/statistics_twin.cpp"]
    sources += [ROOT / "core/error.cpp", ROOT / "core/random.cpp"]
    out = pathlib.Path(tempfile.mkdtemp()) / "twin.so"
    flags = "-std=c++20 -O2 -march=native -shared -fPIC -pthread".split()
    subprocess.run([os.environ.get("CXX", "c++"), *flags, f"-I{ROOT}", *map(str, sources), "-o", str(out)], check=True)
    lib = ctypes.CDLL(str(out))
    for name in (
        "beta beta_quantile gamma gamma_upper chi_square chi_square_quantile student student_two_sided student_quantile "
        "noncentral power smallest_gain spread_limit clopper_pearson mcnemar joint joint_critical best"
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
        x = float(rs.beta(a, b))
        sheet.see("incomplete beta: special.betainc", lib.twin_beta(D(a), D(b), D(x)), special.betainc(a, b, x), 1e-9, 1e-12)
        p = float(rs.uniform())
        sheet.see("its inverse: stats.beta.ppf", lib.twin_beta_quantile(D(p), D(a), D(b)), stats.beta.ppf(p, a, b), 1e-9)
        x = float(rs.gamma(a))
        sheet.see("incomplete gamma: special.gammainc", lib.twin_gamma(D(a), D(x)), special.gammainc(a, x), 1e-10, 1e-12)
        sheet.see("its complement: special.gammaincc", lib.twin_gamma_upper(D(a), D(x)), special.gammaincc(a, x), 1e-10, 1e-12)
        f = float(np.exp(rs.uniform(0, 7)))
        p = float(10 ** rs.uniform(-9, -0.01))
        sheet.see("chi-square quantile: stats.chi2.ppf", lib.twin_chi_square_quantile(D(p), D(f)), stats.chi2.ppf(p, f), 1e-10)
        x = float(rs.chisquare(f))
        sheet.see("chi-square: stats.chi2.cdf", lib.twin_chi_square(D(x), D(f)), stats.chi2.cdf(x, f), 1e-10, 1e-12)
        t = float(rs.standard_t(f) * np.exp(rs.uniform(0, 3)))
        sheet.see("Student's t: stats.t.cdf", lib.twin_student(D(t), D(f)), stats.t.cdf(t, f), 1e-10, 1e-14)
        sheet.see("two-sided: 2 stats.t.sf", lib.twin_student_two_sided(D(t), D(f)), 2 * stats.t.sf(abs(t), f), 1e-10)
        sheet.see("its quantile: stats.t.ppf", lib.twin_student_quantile(D(p), D(f)), stats.t.ppf(p, f), 1e-10, 1e-9)
        shift = float(rs.uniform(-6, 6))
        t = shift + float(rs.standard_t(f))
        sheet.see("noncentral t: stats.nct.cdf", lib.twin_noncentral(D(t), D(f), D(shift)), stats.nct.cdf(t, f, shift), 1e-9, 1e-2)
        g, q = float(np.exp(rs.uniform(0, 6))), float(10 ** rs.uniform(-5, -0.3))
        sheet.see("ratio of spreads: stats.f.isf", lib.twin_spread_limit(D(f), D(g), D(q)), np.sqrt(stats.f.isf(q, f, g)), 1e-9)


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
        d, margin, out = rs.normal(0.1, 0.5, rs.randint(2, 12)), float(rs.uniform(0.1, 1)), np.zeros(5)
        lib.twin_equivalence(I(len(d)), array(d)[0], D(margin), array(out)[0])
        described = weightstats.DescrStatsW(d)
        _, lower, upper = described.ttost_mean(-margin, margin)
        theirs = [d.mean(), *described.tconfint_mean(0.1), lower[1], upper[1]]
        sheet.see("equivalence: statsmodels ttost_mean", out, theirs, 1e-9, 1e-9)


def joint(lib, sheet, rs, rounds):
    for _ in range(max(rounds // 20, 6)):
        k = int(rs.randint(2, 9))
        loads = rs.uniform(0, 0.95, k)
        correlation = np.outer(loads, loads)
        np.fill_diagonal(correlation, 1)
        f, c = float(rs.randint(3, 60)), float(rs.uniform(1, 4))
        pointer, keep = array(loads)
        mine = lib.twin_joint(I(k), pointer, D(f), D(c))
        there = stats.multivariate_t(shape=correlation, df=f).cdf(np.full(k, c), lower_limit=np.full(k, -c), maxpts=100_000 * k)
        sheet.see("max of t: stats.multivariate_t (random)", mine, there, 2e-4, 0.1)
    for k in (2, 3, 7, 25, 300):
        pointer, keep = array(np.full(k, 0.5**0.5))
        errors, keep2 = array(np.ones(k))
        ordered = integrate.quad(lambda x: x * k * stats.norm.pdf(x) * stats.norm.cdf(x) ** (k - 1), -9, 9, epsabs=1e-12)[0]
        sheet.see("best by chance: quadrature of the largest normal", lib.twin_best(I(k), pointer, errors), 0.5**0.5 * ordered, 1e-8)


def table(rs, rows, seeds, missing):
    values = 75 + rs.uniform(-1, 1, (rows + 1, 1)) + 0.5 * rs.normal(size=seeds) + 0.3 * rs.normal(size=(rows + 1, seeds))
    if missing:
        values[rs.uniform(size=values.shape) < 0.25] = np.nan
    return values


def strip(lib, values, blocks, holm):
    rows, seeds = values.shape
    summary, out = np.zeros(7), np.zeros((rows - 1, 5))
    lib.twin_strip(I(rows - 1), I(seeds), array(values)[0], I(blocks), I(holm), array(summary)[0], out.ctypes.data_as(ctypes.POINTER(D)))
    return summary, out


def least_squares(values):
    """Residual sum of squares and degrees of freedom of the fit of row and seed effects."""
    r, s = np.nonzero(~np.isnan(values))
    design = np.hstack([np.eye(values.shape[0])[r], np.eye(values.shape[1])[s][:, 1:]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows and seeds may be disconnected: OLS uses the pseudoinverse
        fit = sm.OLS(values[r, s], design).fit()
    return fit.ssr, fit.df_resid, len(r)


def strips(lib, sheet, rs, rounds):
    for i in range(max(rounds // 10, 10)):
        values = table(rs, int(rs.randint(2, 8)), int(rs.randint(3, 9)), missing=i % 2 == 1)
        if (np.isnan(values).sum(1) > values.shape[1] - 2).any():
            continue
        summary, out = strip(lib, values, True, False)
        squares, freedom, _ = least_squares(values)
        sheet.see("residual with seeds as blocks: statsmodels OLS", summary[0], np.sqrt(squares / freedom), 1e-9)
        sheet.see("its degrees of freedom: statsmodels OLS", summary[1], freedom, 1e-12)
        # The most deviating row: F of leaving it out.
        if not np.isnan(values).any():
            ratios = []
            for row in range(len(values)):
                rest, rest_freedom, _ = least_squares(np.delete(values, row, 0))
                ratios.append(np.sqrt((squares - rest) / (freedom - rest_freedom) / (rest / rest_freedom)))
            sheet.see("spread of a row: statsmodels OLS, row left out", summary[5], ratios[int(summary[6]) + 1], 1e-8)
            within = ((values - values.mean(1, keepdims=True)) ** 2).sum() / (values.shape[0] * (values.shape[1] - 1))
            sheet.see("correlation of common draws: mean squares", summary[3], 1 - squares / freedom / within, 1e-9, 1e-3)
        else:
            held = ~np.isnan(values[1:]) & ~np.isnan(values[0])
            n = held.sum(1)
            if (n == 0).any():
                continue
            shared = held.astype(float) @ held.T / (2 * np.sqrt(np.outer(n, n)))
            np.fill_diagonal(shared, 1)
            edge = np.full(len(n), summary[2])
            inside = stats.multivariate_t(shape=shared, df=freedom).cdf(edge, lower_limit=-edge, maxpts=100_000 * len(n))
            sheet.see("critical value, runs missing: multivariate_t (random)", 1 - inside, 0.05, 0.02)
            draws = rs.multivariate_normal(np.zeros(len(n)), shared, 400_000) * out[:, 1]
            sheet.see("best by chance, runs missing: 400,000 draws", summary[4], draws.max(1).mean(), 0.01, float(out[:, 1].max()))
        _, own = strip(lib, values, True, True)
        paired = [(row - values[0])[~np.isnan(row - values[0])] for row in values[1:]]
        if all(len(differences) > 1 for differences in paired):
            adjusted = multitest.multipletests([stats.ttest_1samp(d, 0).pvalue for d in paired], method="holm")[1]
            sheet.see("p of a strip by Holm: ttest_1samp, multipletests", own[:, 4], adjusted, 1e-9)
        _, independent = strip(lib, values, False, False)
        groups = [row[~np.isnan(row)] for row in values]
        if all(len(group) > 1 for group in groups):
            test = stats.dunnett(*groups[1:], control=groups[0], random_state=np.random.default_rng(1))
            sheet.see("p of independent rows: stats.dunnett (random)", independent[:, 4], test.pvalue, 5e-3, 0.2)
            bounds = test.confidence_interval(0.95)
            sheet.see("their intervals: stats.dunnett (random)", independent[:, 2:4].T, [bounds.low, bounds.high], 2e-2, 1.0)
    values = table(rs, 5, 6, missing=False)
    squares, freedom, _ = least_squares(values)
    sd = np.sqrt(2 * squares / freedom)
    for gain in (0.3, 0.5, 1.0):
        n = lib.twin_seeds_needed(I(5), I(6), array(values)[0], D(gain))

        def shown(seeds):
            f, loads = 5 * (seeds - 1), array(np.full(5, 0.5**0.5))
            c = lib.twin_joint_critical(I(5), loads[0], D(f), D(0.95))
            shift = gain / sd * np.sqrt(seeds)
            return stats.nct.sf(c, f, shift) + stats.nct.cdf(-c, f, shift)

        sheet.see("seeds needed: stats.nct, enough", float(shown(n) >= 0.8), 1, 1e-12)
        sheet.see("seeds needed: stats.nct, one fewer is not", float(n == 2 or shown(n - 1) < 0.8), 1, 1e-12)


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
    joint(lib, sheet, rs, arguments.rounds)
    strips(lib, sheet, rs, arguments.rounds)
    bootstraps(lib, sheet, rs)
    sys.exit(1 if sheet.show() else 0)


if __name__ == "__main__":
    main()
