"""Record a gradient descent in plain Python, without a framework, and ask when the learning rate was changed."""

import provml


def main() -> None:
    points = [(x, 3 * x + 1) for x in range(-5, 6)]
    with provml.record("line", model="line-fit") as run:
        data = run.dataset(repr(points).encode(), name="points", role="training")
        slope, offset, rate = 0.0, 0.0, 0.02
        with run.training(using=data, learning_rate=rate, optimizer="gradient descent") as training:
            for epoch in training.epochs(20):
                errors = [slope * x + offset - y for x, y in points]
                slope -= rate * 2 * sum(error * x for error, (x, _) in zip(errors, points, strict=True)) / len(points)
                offset -= rate * 2 * sum(errors) / len(points)
                epoch.measured(loss=sum(error * error for error in errors) / len(points))
                if epoch.index == 10:
                    rate = 0.01
                    training.adapted(learning_rate=rate, technique="step decay")
            model = training.produced(f"{slope} {offset}".encode())
        with run.evaluation(of=model) as test:
            test.measured(absolute_error=abs(slope * 10 + offset - 31))

    with provml.open() as store:
        print(store.ask("adaptations", model="line-fit"))


if __name__ == "__main__":
    main()
