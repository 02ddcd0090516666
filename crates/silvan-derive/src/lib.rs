//! The derive macro `Saved`; see `silvan_engine::saved`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, Fields, Ident, Index, Member, Type, parse_macro_input};

/// Implements `silvan_engine::saved::Saved`: a checkpoint contains all fields, in order, except those with the attribute
/// `#[saved(constant)]`, whose values do not change after the network has been built, and `#[saved(scratch)]`, whose values
/// do not matter between two events. An enum starts with the number of its variant.
///
/// In a *relative* state (`silvan_engine::repeats`), a value is equal to an earlier one if its bytes are equal, and a `Time`
/// if it has the same distance from the time of the state. Attributes state other rules: `#[saved(time)]` for times that are
/// numbers, `#[saved(count)]` for numbers that only results contain, and that grow; `#[saved(most)]` for maxima that only
/// results contain; `#[saved(latest)]` for times that only results contain, or that do not matter once they are past;
/// `#[saved(past)]` for times that matter only while they are in the future; and `#[saved(span)]` for values of type `Time`
/// that are durations, and `#[saved(order)]` for numbers of which only the order among all such numbers of the value matters.
/// With `#[saved(relative(save, restore))]` before a struct, two functions save and restore its relative state; without the
/// second one, the first writes the same bytes as the derived one, with other notes.
///
/// A type with a constant or scratch field can only be restored in place. With `#[saved(then = function)]`
/// before a struct, `restore` calls the function with the restored value. `load` does not call it.
#[proc_macro_derive(Saved, attributes(saved))]
pub fn derive_saved(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    implementation(&input).unwrap_or_else(|error| error.to_compile_error()).into()
}

/// The fields of a struct or of a variant.
struct Parts {
    members: Vec<Member>,
    /// A variable for each field.
    names: Vec<Ident>,
    types: Vec<Type>,
    is_saved: Vec<bool>,
    /// For each field, how its value changes from one repetition to the next, as a variant of `Change`; `None` if nothing is
    /// stated.
    changes: Vec<Option<Ident>>,
}

impl Parts {
    fn of(fields: &Fields) -> Result<Self, Error> {
        let mut parts = Self {
            members: Vec::new(),
            names: Vec::new(),
            types: Vec::new(),
            is_saved: Vec::new(),
            changes: Vec::new(),
        };
        for (at, field) in fields.iter().enumerate() {
            parts.members.push(match &field.ident {
                Some(name) => Member::Named(name.clone()),
                None => Member::Unnamed(Index::from(at)),
            });
            parts.names.push(format_ident!("field_{at}"));
            parts.types.push(field.ty.clone());
            let (is_saved, change) = attributes(field)?;
            parts.is_saved.push(is_saved);
            parts.changes.push(change);
        }
        Ok(parts)
    }

    /// A pattern that binds the saved fields. In the code, it follows the name of the type or variant.
    fn pattern(&self) -> Tokens {
        let bound = self.members.iter().zip(&self.names).zip(&self.is_saved);
        let bound = bound.map(|((member, name), is_saved)| match is_saved {
            true => quote!(#member: #name),
            false => quote!(#member: _),
        });
        quote!({ #(#bound),* })
    }

    /// The variables of the saved fields.
    fn saved(&self) -> Vec<&Ident> {
        self.names
            .iter()
            .zip(&self.is_saved)
            .filter_map(|(name, is_saved)| is_saved.then_some(name))
            .collect()
    }

    /// The name of the type or variant, followed by the names of the saved fields.
    fn layout_name(&self, of: &Ident) -> String {
        let named = self.members.iter().zip(&self.is_saved).filter(|(_, is_saved)| **is_saved);
        let names = named.map(|(member, _)| quote!(#member).to_string());
        std::iter::once(of.to_string()).chain(names).collect::<Vec<_>>().join(" ")
    }

    fn saved_types(&self) -> impl Iterator<Item = &Type> {
        self.types.iter().zip(&self.is_saved).filter_map(|(of, is_saved)| is_saved.then_some(of))
    }

    /// Statements that save the fields of a type or variant with a name.
    fn save(&self, of: &Ident) -> Tokens {
        let fields = self.members.iter().zip(&self.names).zip(&self.is_saved).zip(&self.changes);
        let saved = fields.filter(|((_, is_saved), _)| **is_saved).map(|(((member, name), _), change)| {
            let label = format!("{of}.{}", quote!(#member));
            let save = quote!(::silvan_engine::saved::Saved::save(#name, to));
            match change {
                None => quote!(to.label(#label); #save;),
                Some(change) => quote! {
                    to.label(#label);
                    let outer = to.begin(::silvan_engine::saved::Change::#change);
                    #save;
                    to.end(outer);
                },
            }
        });
        let saved: Vec<Tokens> = saved.collect();
        let has_order = self.changes.iter().flatten().any(|change| change == "Order");
        let order = has_order.then(|| quote!(to.begin_order();));
        quote!(#order #(#saved)*)
    }

    fn restore(&self) -> Tokens {
        let saved = self.saved();
        quote!(#(::silvan_engine::saved::Saved::restore(#saved, from)?;)*)
    }

    /// An expression for a new value, where `path` is the name of the type or variant.
    fn load(&self, path: &Tokens) -> Tokens {
        if self.is_saved.contains(&false) {
            return quote!(Err(::silvan_engine::saved::Damaged::in_place::<Self>()));
        }
        let members = &self.members;
        quote!(Ok(#path { #(#members: ::silvan_engine::saved::Saved::load(from)?),* }))
    }
}

/// Whether a field is saved, and the variant of `Change` that its attribute names.
fn attributes(field: &Field) -> Result<(bool, Option<Ident>), Error> {
    const CHANGES: [(&str, &str); 7] = [
        ("time", "Time"),
        ("count", "Count"),
        ("most", "Most"),
        ("latest", "Latest"),
        ("past", "Past"),
        ("span", "Span"),
        ("order", "Order"),
    ];
    let (mut is_saved, mut change) = (true, None);
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("saved")) {
        attribute.parse_nested_meta(|meta| {
            if let Some((_, variant)) = CHANGES.iter().find(|(name, _)| meta.path.is_ident(name)) {
                change = Some(format_ident!("{variant}"));
                return Ok(());
            }
            is_saved = false;
            match meta.path.is_ident("constant") || meta.path.is_ident("scratch") {
                true => Ok(()),
                false => Err(meta.error(
                    "expected `constant`, `scratch`, `time`, `count`, `most`, `latest`, `past`, `span` or `order`",
                )),
            }
        })?;
    }
    Ok((is_saved, change))
}

/// The attributes of a struct.
#[derive(Default)]
struct OfStruct {
    /// The call of the function that follows the restoration, if there is one.
    after: Tokens,
    /// The functions that save and restore a relative state, if they are not derived.
    relative: Option<(syn::Path, Option<syn::Path>)>,
}

impl OfStruct {
    fn of(input: &DeriveInput) -> Result<Self, Error> {
        let mut of = Self::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("saved")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("relative") {
                    let parts;
                    syn::parenthesized!(parts in meta.input);
                    let save: syn::Path = parts.parse()?;
                    let comma: Option<syn::Token![,]> = parts.parse()?;
                    let restore = comma.map(|_| parts.parse()).transpose()?;
                    of.relative = Some((save, restore));
                    return Ok(());
                }
                if !meta.path.is_ident("then") {
                    return Err(meta.error("expected `then = function` or `relative(save, restore)`"));
                }
                let function: syn::Path = meta.value()?.parse()?;
                of.after = quote!(#function(self););
                Ok(())
            })?;
        }
        Ok(of)
    }
}

fn implementation(input: &DeriveInput) -> Result<Tokens, Error> {
    let (mut types, mut names): (Vec<Type>, Vec<String>) = (Vec::new(), Vec::new());
    let (save, restore, load) = match &input.data {
        Data::Struct(data) => {
            let parts = Parts::of(&data.fields)?;
            types.extend(parts.saved_types().cloned());
            names.push(parts.layout_name(&input.ident));
            let (pattern, save) = (parts.pattern(), parts.save(&input.ident));
            let (restore, load) = (parts.restore(), parts.load(&quote!(Self)));
            let OfStruct { after, relative } = OfStruct::of(input)?;
            let (save_relative, restore_relative) = match relative {
                None => (Tokens::new(), Tokens::new()),
                Some((save, restore)) => (
                    quote!(if to.is_relative() { return #save(self, to); }),
                    restore
                        .map(|restore| quote!(if from.is_relative() { return #restore(self, from); }))
                        .unwrap_or_default(),
                ),
            };
            (
                quote!(#save_relative let Self #pattern = self; #save),
                quote!(#restore_relative let Self #pattern = self; #restore #after Ok(())),
                load,
            )
        }
        Data::Enum(data) => {
            let (mut saves, mut restores, mut loads) = (Vec::new(), Vec::new(), Vec::new());
            for (number, variant) in data.variants.iter().enumerate() {
                let number =
                    u8::try_from(number).map_err(|_| Error::new(variant.span(), "too many variants"))?;
                let (parts, name) = (Parts::of(&variant.fields)?, &variant.ident);
                types.extend(parts.saved_types().cloned());
                names.push(parts.layout_name(name));
                let (pattern, save) = (parts.pattern(), parts.save(name));
                let (restore, load) = (parts.restore(), parts.load(&quote!(Self::#name)));
                saves.push(quote!(Self::#name #pattern => {
                    to.put_state(&[#number]);
                    #save
                }));
                restores.push(quote!((#number, Self::#name #pattern) => { #restore return Ok(()); }));
                loads.push(quote!(#number => #load));
            }
            // An enum without variants has no values.
            let save =
                if saves.is_empty() { quote!(match *self {}) } else { quote!(match self { #(#saves)* }) };
            let load = quote!(match variant {
                #(#loads,)*
                _ => Err(::silvan_engine::saved::Damaged::value::<Self>()),
            });
            let variant = quote!(let variant: u8 = ::silvan_engine::saved::Saved::load(from)?;);
            let restore = quote! {
                #variant
                match (variant, &mut *self) {
                    #(#restores)*
                    _ => {}
                }
                let loaded: Result<Self, ::silvan_engine::saved::Damaged> = #load;
                *self = loaded?;
                Ok(())
            };
            (save, restore, quote!(#variant #load))
        }
        Data::Union(_) => return Err(Error::new(input.span(), "a union cannot be saved")),
    };
    let (name, layout) = (&input.ident, names.join(", "));
    let mut generics = input.generics.clone();
    if generics.type_params().next().is_some() {
        let bounds = generics.make_where_clause();
        for of in &types {
            bounds.predicates.push(syn::parse_quote!(#of: ::silvan_engine::saved::Saved));
        }
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        impl #parameters ::silvan_engine::saved::Saved for #name #arguments #bounds {
            const LAYOUT: u64 = ::silvan_engine::saved::layout(
                #layout,
                &[#(<#types as ::silvan_engine::saved::Saved>::LAYOUT),*],
            );

            fn save(&self, to: &mut ::silvan_engine::saved::Writer<'_>) {
                #save
            }

            fn restore(
                &mut self,
                from: &mut ::silvan_engine::saved::Reader<'_>,
            ) -> Result<(), ::silvan_engine::saved::Damaged> {
                #restore
            }

            fn load(
                from: &mut ::silvan_engine::saved::Reader<'_>,
            ) -> Result<Self, ::silvan_engine::saved::Damaged> {
                #load
            }
        }
    })
}
